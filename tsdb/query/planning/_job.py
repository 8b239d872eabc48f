"""What is known of a query before and after it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from datafusion import DataFrame

from tsdb.model import DataType, ViewInfo
from tsdb.query.lifetime import QueryLife
from tsdb.query.session import Session
from tsdb.query.tables import Handed


@dataclass(frozen=True, slots=True)
class ViewChain:
    """The views being expanded, outermost first, and what is known of views so far.

    A view that several others read is expanded once: each level would double the work otherwise.
    """

    path: tuple[ViewInfo, ...] = ()
    kinds: dict[ViewInfo, dict[str, DataType]] = field(default_factory=dict)
    """The types of their columns."""
    prepared: dict[ViewInfo, Job] = field(default_factory=dict)

    def within(self, view: ViewInfo) -> ViewChain:
        return replace(self, path=(*self.path, view))


@dataclass(frozen=True, slots=True)
class Job:
    """A query that is ready to be planned."""

    text: str
    session: Session
    tables: Mapping[str, pa.Table]
    is_ordered: bool
    is_single: bool
    """It reads one table of ours and nothing else, so that cancellation is checked once per batch."""
    is_plain: bool
    """It reads one table, whatever it is, or none, so that its rows are not multiplied."""
    is_explained: bool
    views: ViewChain
    """The views whose text this is, outermost first."""
    limit: int | None
    """The largest LIMIT in it, if it may concern `numbers`."""
    is_small: bool
    """It is planned in milliseconds, and its expressions make no large values."""
    written: str
    """The text before it was edited, for places in error messages."""
    names: tuple[tuple[str, str], ...] = ()
    """Database and name of the tables that its text names."""
    handed: Handed | None = None
    """Conditions for the only table that it reads."""

    @property
    def is_harmless(self) -> bool:
        """It needs no process that can be ended."""
        return self.is_small and self.is_plain


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """The result of planning a query without running it."""

    schema: pa.Schema
    plan: str
    """The logical plan as text, with the columns of each step."""


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that DataFusion has planned."""

    frame: DataFrame
    life: QueryLife
    schema: pa.Schema
    """The columns of its answer."""
    coerced: DataFrame
    """The same plan, in which the branches of a CASE and the sides of a UNION have one type."""

    def give_up(self) -> None:
        """Cancel it and release what it holds."""
        self.life.cancel()
        self.life.end()
