"""What a benchmark consists of, in figures: as tables, as pictures, as a page."""
