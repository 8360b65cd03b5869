"""The dataset folder: written, found, loaded."""
