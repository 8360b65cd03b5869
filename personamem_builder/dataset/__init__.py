"""The dataset folder, read: found, checked, loaded."""
