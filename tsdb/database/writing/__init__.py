"""Writing rows, by whatever protocol they arrive."""
