"""Engines whose regions are reached over a connection: whole suites use them as if they were on another node.

database ─▶ Engine.write, open_reader, … ─▶ RemoteRegions ─ Flight ─▶ RegionServer ─▶ the same engine
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, ClassVar

import pytest

from tests.remote.world import FakeRoutes
from tsdb.engine import Engine
from tsdb.remote import RegionServer, RemoteRegions

VERBS = (
    "create_region", "schema", "write", "open_reader", "alter", "set_options", "flush", "compact", "verify",
    "give_up_file", "skip_log_object", "compactions", "wal_segments", "storage_requests", "truncate", "drop",
    "discard_unflushed", "stat", "time_range", "files",
)  # fmt: skip


class _Local:
    """The regions of an engine, without the connection."""

    def __init__(self, engine: Engine, verbs: dict[str, Any]) -> None:
        self._engine = engine
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        verb = self._verbs.get(name)
        return getattr(self._engine, name) if verb is None else partial(verb, self._engine)


class FlightRegions:
    """The connection of one engine."""

    calls: ClassVar[Counter[str]] = Counter()
    """How often each verb was used in this process."""

    def __init__(self, engine: Engine, verbs: dict[str, Any]) -> None:
        self.server = RegionServer(_Local(engine, verbs), threads_max=16)
        self.server.start()
        self.regions = RemoteRegions(FakeRoutes(self.server.address))

    def close(self) -> None:
        self.regions.close()
        self.server.stop()


def use_flight(patch: pytest.MonkeyPatch) -> None:
    """Let every engine from now on be reached over a connection of its own."""
    verbs = {name: getattr(Engine, name) for name in VERBS}
    close = Engine.close
    opened: dict[int, FlightRegions] = {}

    def ask(name: str, engine: Engine, *args: Any, **named: Any) -> Any:
        if engine._is_closed:
            return verbs[name](engine, *args, **named)
        found = opened.get(id(engine))
        if found is None:
            found = opened[id(engine)] = FlightRegions(engine, verbs)
        FlightRegions.calls[name] += 1
        return getattr(found.regions, name)(*args, **named)

    def close_both(engine: Engine, **named: Any) -> None:
        found = opened.pop(id(engine), None)
        if found is not None:
            found.close()
        close(engine, **named)

    for name in VERBS:
        patch.setattr(Engine, name, lambda engine, *args, _name=name, **named: ask(_name, engine, *args, **named))
    patch.setattr(Engine, "close", close_both)
