"""Long contexts from the sessions of a run, and the points at which its questions are asked."""
