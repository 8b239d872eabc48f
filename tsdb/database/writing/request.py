"""What a write says beside its rows, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from tsdb.errors import TsdbError
from tsdb.ingest import NewTable, Rejection, WriteOutcome
from tsdb.model import DEFAULT_DATABASE, RegionId, TableInfo
from tsdb.query import WriteToken

_LINE_PROTOCOLS = frozenset({"influxdb", "opentsdb_telnet"})


def _admit_all(database: str) -> None:
    """Let rows into any database."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a request says beside its rows."""

    database: str = DEFAULT_DATABASE
    """For rows that name none."""
    token: WriteToken = field(default_factory=WriteToken)
    new_table: NewTable = field(default_factory=NewTable)
    hints: Mapping[str, str] = field(default_factory=dict)
    table_options: Mapping[str, str] = field(default_factory=dict)
    """Options of a new table, which win over those of its database."""
    protocol: str = "other"
    is_dry: bool = False
    notes_rejections: bool = True
    admit: Callable[[str], None] = _admit_all
    """Raises if rows may not be written to a database."""
    rights: Hashable = None
    """The rights of a user who may not write everywhere; None for others."""

    @property
    def place_word(self) -> str:
        return "line" if self.protocol in _LINE_PROTOCOLS else "row"

    @property
    def may_create(self) -> bool:
        return self.hints.get("auto_create_table", "true").strip().lower() != "false"

    @property
    def physical_table(self) -> str:
        return self.hints.get("physical_table") or self.new_table.physical_table


@dataclass(frozen=True, slots=True)
class Again:
    """A table was changed meanwhile: the rows have to be planned again."""

    reason: TsdbError
    """What the sender gets if there is no time left."""


@dataclass(slots=True)
class Progress:
    """What a write has done so far."""

    token: WriteToken
    rows: int = 0
    created: dict[str, None] = field(default_factory=dict)
    added: dict[tuple[str, str, str], None] = field(default_factory=dict)
    refused: dict[int, list[Rejection]] = field(default_factory=dict)
    """By the number of the rows in the request."""
    written: set[tuple[int, RegionId, int]] = field(default_factory=set)
    """The parts that are durable: of which rows, in which region, and which of its parts."""
    planned: set[tuple[str, str]] = field(default_factory=set)
    """The tables that have to be created or widened."""

    def expect(self, tables: Iterable[tuple[str, str]]) -> None:
        before = len(self.planned)
        self.planned.update(tables)
        self.token.expect(len(self.planned) - before)

    def note_table(self, table: TableInfo, was: TableInfo | None) -> None:
        """Count a table that was created, or changed from what it was."""
        self.token.note(tables=1)
        if was is None:
            self.created[table.name] = None
        else:
            new = [column for column in table.columns if column.name not in was.by_name]
            self.added.update(dict.fromkeys((table.name, column.name, column.type.name) for column in new))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        return tuple(each for many in self.refused.values() for each in many)

    def outcome(self) -> WriteOutcome:
        return WriteOutcome(self.rows, tuple(self.created), tuple(self.added), self.rejections)
