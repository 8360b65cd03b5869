"""What evaluations leave on disk, read for reports of every benchmark."""
