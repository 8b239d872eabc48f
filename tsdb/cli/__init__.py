"""The `tsdb` executable: arguments in, printing out."""

from __future__ import annotations

from tsdb.cli._commands import main

__all__ = ["main"]
