"""The PostgreSQL server, asked by real clients and by hand."""
