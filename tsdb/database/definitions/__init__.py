"""Statements that define tables, views and databases: CREATE, ALTER, DROP, TRUNCATE and COMMENT."""
