"""Statements that describe what is there, SHOW and DESCRIBE, and the column headings of results."""
