"""PERSONA-Bench (arXiv 2505.14106): classify, forecast and write in a user's place, on Reddit threads."""
