"""COPY: tables, query results and whole databases to files and back."""
