"""tsdb: a time-series database, as a server and inside a Python program.

    import tsdb

    with tsdb.connect("metrics") as db:
        db.write("cpu", [{"host": "a", "ts": datetime.now(), "usage": 0.5}], tags=["host"], time="ts")
        print(db.sql("SELECT * FROM cpu").to_pandas())

Names are loaded when they are first used, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsdb.embedded import Connection, Result, connect
    from tsdb.errors import InvalidArguments, InvalidSyntax, Status, TsdbError

    __version__: str

_LAZY = {
    "Connection": "tsdb.embedded",
    "Result": "tsdb.embedded",
    "connect": "tsdb.embedded",
    "InvalidArguments": "tsdb.errors",
    "InvalidSyntax": "tsdb.errors",
    "Status": "tsdb.errors",
    "TsdbError": "tsdb.errors",
}

__all__ = [
    "Connection",
    "InvalidArguments",
    "InvalidSyntax",
    "Result",
    "Status",
    "TsdbError",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("tsdb-server")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
