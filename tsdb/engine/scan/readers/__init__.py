"""Readers of a plan: blocks of rows, pieces of columns, ends of series."""
