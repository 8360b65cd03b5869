"""Refining a run: questions that can be answered without reading are put into other words, or left out."""
