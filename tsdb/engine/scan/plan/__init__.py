"""Plans: which rows of which sources are read, and which of them have to be merged."""
