"""The official release: found, read and checked."""
