"""`/v1/sql`: statements in, rows out in the format that the client wants."""

from tsdb.servers.http.sql._answers import answer_headers
from tsdb.servers.http.sql._formats import FormatOptions
from tsdb.servers.http.sql._parameters import read_compression, read_epoch, read_form, read_format
from tsdb.servers.http.sql._routes import SqlRoutes, sql_routes

__all__ = [
    "FormatOptions",
    "SqlRoutes",
    "answer_headers",
    "read_compression",
    "read_epoch",
    "read_form",
    "read_format",
    "sql_routes",
]
