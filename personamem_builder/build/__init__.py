"""Dataset folders, written: from a run, from the official release, or when they are asked for."""
