"""The database inside a Python program: the same engine and the same SQL, without a server.

db = tsdb.connect("metrics")                       # a directory, or ":memory:"
db.write("cpu", frame, tags=["host"], time="ts")   # pandas, polars, pyarrow, or a list of dictionaries
db.sql("SELECT host, avg(usage) FROM cpu GROUP BY host").to_pandas()
"""

from tsdb.embedded._connection import Connection, connect
from tsdb.embedded._result import Result

__all__ = ["Connection", "Result", "connect"]
