"""Statements that change rows: INSERT, REPLACE, UPDATE and DELETE."""
