"""Shapes of statements that were seen before: names and types of their answers.

The shape of a statement is its text without its conditions. What the planner calls the columns of an answer, and which
types they have, depends on that and on the table; so it is asked once and remembered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa

from tsdb.query.session import Session

SHAPES_MAX = 1024
"""How many shapes are remembered; the one used longest ago goes first."""

VARIABLE = "series_aggregate"


def is_series_aggregate_on(session: Session) -> bool:
    return session.variables.get(VARIABLE, "on") != "off"


class Shapes:
    """The schemas of answers by shape. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, pa.Schema] = OrderedDict()

    def schema(self, key: Hashable, plan: Callable[[], pa.Schema]) -> pa.Schema:
        """Return the schema of a shape; `plan` finds it out the first time."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found
        schema = plan()
        with self._lock:
            self._found[key] = schema
            if len(self._found) > SHAPES_MAX:
                self._found.popitem(last=False)
        return schema
