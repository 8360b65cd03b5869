"""Memory systems on the benchmark: what they are shown, what they give back, and what it is worth."""
