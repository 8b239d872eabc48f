"""The four components: the only place where concrete objects are made and put together."""

from __future__ import annotations

from tsdb.components._run import run_component

__all__ = ["run_component"]
