"""Filters: expressions over the columns of a region, and what they say about series, time and rows."""
