"""A cluster of real processes against a standalone server, all on one machine: what counts are ratios."""
