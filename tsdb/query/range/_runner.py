"""What a range query needs from the engine that executes plain SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tsdb.query.range._limits import Slots
from tsdb.sql.statements import Dialect


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """What a table says of its time: the column, its unit (`s`, `ms`, `us`, `ns`), and the tags."""

    name: str
    unit: str
    tags: tuple[str, ...] = ()


class RangeRunner(Protocol):
    """Executes the plain SQL into which a range query is taken apart, for one session."""

    @property
    def dialect(self) -> Dialect:
        """How texts are read; names are quoted to match."""

    @property
    def time_zone(self) -> str:
        """The session's zone, as `tsdb.model.zone_of` reads it."""

    @property
    def now_ms(self) -> int:
        """The time of the statement."""

    @property
    def slots(self) -> Slots:
        """The memory of the slots that are made for the statement."""

    def check(self) -> None:
        """Raise if the statement should not go on: a deadline, a cancellation."""

    def run(self, text: str, tables: Mapping[str, pa.Table] = ...) -> pa.Table:
        """Execute a query; `tables` are visible by their bare names."""

    def aggregate(self, text: str, tables: Mapping[str, pa.Table] = ...) -> pa.Table | None:
        """Answer a query from runs of rows, without a plan; None if it is none that can be."""

    def schema(self, text: str, tables: Mapping[str, pa.Table] = ...) -> pa.Schema:
        """Return what a query would answer with; the names of columns are headers."""

    def time_index(self, source: str) -> TimeIndex | None:
        """Return the time index of the table a (qualified) name stands for; None when it is no table of ours."""


def quote_name(name: str, dialect: Dialect) -> str:
    """Return a name that means just this name in a dialect."""
    quote = "`" if dialect is Dialect.MYSQL else '"'
    return quote + name.replace(quote, quote * 2) + quote
