"""Tables with every kind of past: late rows, rows written twice, deleted ones, files and memory, older schemas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.engine.harness import batch_of
from tests.query.harness import BIGINT, DOUBLE, MILLIS, STRING, World
from tsdb.engine import region_directory
from tsdb.model import (
    CATALOG,
    AddColumn,
    ColumnInfo,
    DataType,
    Kind,
    MergeMode,
    OpType,
    RegionOptions,
    Semantic,
    TableInfo,
    WidenColumn,
    region_id,
)

HOSTS = ["a", "b", "c", None]
DCS = ["x", "y", None]
BEGIN = -7_200_000
END = 14_400_000
SPECIAL = [float("nan"), float("inf"), float("-inf")]

COLUMNS: list[tuple[str, DataType]] = [
    ("ts", MILLIS),
    ("host", STRING),
    ("dc", STRING),
    ("f", DOUBLE),
    ("g", DataType(Kind.FLOAT32)),
    ("i", DataType(Kind.INT32)),
    ("b", BIGINT),
    ("u", DataType(Kind.UINT64)),
    ("s", STRING),
    ("o", DataType(Kind.BOOLEAN)),
]
_FLOATS = st.none() | st.integers(-40, 40).map(lambda n: n / 4) | st.sampled_from([0.0, -0.0])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "f": _FLOATS,
    "g": _FLOATS | st.sampled_from(SPECIAL),
    "i": st.none() | st.integers(-50, 50),
    "b": st.none() | st.integers(-50, 50) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]),
    "u": st.none() | st.integers(0, 50) | st.sampled_from([2**64 - 1, 2**63]),
    "s": st.none() | st.sampled_from(["", "p", "q"]),
    "o": st.none() | st.booleans(),
}
_KEYS = st.fixed_dictionaries(
    {
        "host": st.sampled_from(HOSTS),
        "dc": st.sampled_from(DCS),
        "ts": st.integers(BEGIN // 600_000, END // 600_000).map(lambda n: n * 600_000) | st.integers(BEGIN, END),
    }
)
_ROWS = st.builds(lambda key, values: {**key, **values}, _KEYS, st.fixed_dictionaries(_VALUES))


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to a table."""

    kind: str
    rows: tuple[dict[str, Any], ...] = ()


STEPS = st.lists(
    st.one_of(
        st.lists(_ROWS, min_size=1, max_size=25).map(lambda rows: Step("put", tuple(rows))),
        st.lists(_ROWS, min_size=1, max_size=25).map(lambda rows: Step("put", tuple(rows))),
        st.just(Step("flush")),
        st.lists(_KEYS, min_size=1, max_size=6).map(lambda rows: Step("delete", tuple(rows))),
        st.just(Step("widen")),
        st.just(Step("add")),
    ),
    min_size=1,
    max_size=8,
)
OPTIONS = st.sampled_from(
    [
        RegionOptions(),
        RegionOptions(merge_mode=MergeMode.LAST_NON_NULL),
        RegionOptions(append_mode=True),
    ]
)


class Past:
    """A table of a world, with what happens to it."""

    _names: Iterator[int] = itertools.count()

    def __init__(self, world: World, options: RegionOptions, regions: int) -> None:
        self._world = world
        self._options = options
        self.name = f"t{next(self._names)}"
        self.table = self._create(regions)

    def _create(self, regions: int) -> TableInfo:
        columns = tuple(
            ColumnInfo(number, name, kind, self._semantic(name), nullable=name != "ts")
            for number, (name, kind) in enumerate(COLUMNS)
        )
        catalog = self._world.catalog
        table = TableInfo(
            id=1024 + len(catalog.by_name),
            database="public",
            name=self.name,
            columns=columns,
            primary_key=("host", "dc"),
            region_numbers=tuple(range(regions)),
            next_column_id=len(columns),
        )
        for number in table.region_numbers:
            directory = region_directory(CATALOG, "public", table.id, number)
            schema = table.first_region_schema()
            self._world.engine.create_region(region_id(table.id, number), directory, schema, self._options)
        catalog.by_name["public", self.name] = table
        return table

    @staticmethod
    def _semantic(name: str) -> Semantic:
        if name == "ts":
            return Semantic.TIMESTAMP
        return Semantic.TAG if name in ("host", "dc") else Semantic.FIELD

    def go_through(self, step: Step) -> None:
        engine = self._world.engine
        if step.kind == "flush":
            self._world.flush(self.table)
        elif step.kind in ("put", "delete"):
            self._write(step)
        elif step.kind == "widen" and self.table.by_name["i"].type.kind is Kind.INT32:
            for region in self.table.region_ids:
                engine.alter(region, [WidenColumn("i", pa.int64())]).result(30)
            self._replace([replace(each, type=BIGINT) if each.name == "i" else each for each in self.table.columns])
        elif step.kind == "add" and "z" not in self.table.by_name:
            for region in self.table.region_ids:
                engine.alter(region, [AddColumn("z", pa.int64(), default=7)]).result(30)
            added = ColumnInfo(self.table.next_column_id, "z", BIGINT, Semantic.FIELD)
            self._replace([*self.table.columns, added])

    def _write(self, step: Step) -> None:
        if step.kind == "delete" and self._options.append_mode:
            return
        regions = self.table.region_ids
        for number, region in enumerate(regions):
            # A key is of one region, as partition rules have it.
            rows = [row for row in step.rows if HOSTS.index(row["host"]) % len(regions) == number]
            if rows:
                op = OpType.PUT if step.kind == "put" else OpType.DELETE
                batch = batch_of(self._world.engine.schema(region), rows, op)
                self._world.engine.write(region, batch).result(timeout=30)

    def _replace(self, columns: list[ColumnInfo]) -> None:
        table = self.table
        self.table = replace(
            table, columns=tuple(columns), version=table.version + 1, next_column_id=table.next_column_id + 1
        )
        self._world.catalog.by_name["public", self.name] = self.table
