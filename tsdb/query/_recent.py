"""Which statements were asked last, and with which literals: what is asked again after a restart.

A dashboard asks statements of few shapes with other hosts and times in them, and each of those reads other rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from tsdb.query.session import Session
from tsdb.sql.statements import Dialect

SHAPES_MAX = 32
VARIANTS_MAX = 7
"""How many statements of a shape are kept beside the last one."""
TEXT_CHARS_MAX = 4096


class RecentStatement(NamedTuple):
    """A statement, and what its session had chosen."""

    text: str
    database: str
    dialect: Dialect
    time_zone: str
    is_variant: bool = False
    """Another statement of the same shape was asked later."""


class RecentStatements:
    """The last statements of the shapes that were asked last. Bounded; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shapes: OrderedDict[Hashable, OrderedDict[RecentStatement, None]] = OrderedDict()

    def note(self, shape: Hashable, text: str, session: Session) -> None:
        """Remember a statement."""
        if len(text) > TEXT_CHARS_MAX:
            return
        statement = RecentStatement(text, session.database, session.dialect, session.time_zone)
        with self._lock:
            texts = self._shapes.setdefault(shape, OrderedDict())
            self._shapes.move_to_end(shape)
            texts[statement] = None
            texts.move_to_end(statement)
            if len(texts) > VARIANTS_MAX + 1:
                texts.popitem(last=False)
            if len(self._shapes) > SHAPES_MAX:
                self._shapes.popitem(last=False)

    def statements(self) -> list[RecentStatement]:
        """Return the last statement of each shape, the most recent one first, and then those before them."""
        with self._lock:
            shapes = [list(reversed(texts)) for texts in reversed(self._shapes.values())]
        variants = [text._replace(is_variant=True) for texts in shapes for text in texts[1:]]
        return [texts[0] for texts in shapes] + variants
