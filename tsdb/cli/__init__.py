"""The `tsdb` executable: arguments in, printing out."""

from tsdb.cli._commands import main

__all__ = ["main"]
