"""Sheets for human raters, and how far raters agree."""
