"""A whole cluster in one process, with a clock and a scheduler that follow from a seed."""
