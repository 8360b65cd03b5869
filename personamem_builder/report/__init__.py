"""Reports: results read, compared and printed."""
