"""Tables with every kind of past: late rows, rows written twice, deleted ones, files and memory, older schemas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.engine.harness import batch_of
from tests.metric.rows import write_batch
from tests.query.harness import BIGINT, DOUBLE, MILLIS, STRING, World
from tsdb.engine import region_directory
from tsdb.metric import plan_metric_table
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


class MetricPast:
    """A logical table beside another one on the same physical table, with what happens to it: `f` is its value."""

    _names: Iterator[int] = itertools.count()

    def __init__(self, world: World, options: RegionOptions) -> None:
        self._world = world
        self._options = options
        number = next(self._names)
        self._physical = self._create(f"physical{number}", (), {"physical_metric_table": ""})
        directory = region_directory(CATALOG, "public", self._physical.id, 0)
        schema = self._physical.first_region_schema()
        world.engine.create_region(self._physical.region_ids[0], directory, schema, options)
        self.name = f"metric{number}"
        on = {"on_physical_table": self._physical.name}
        self._tables = [self._create(name, ("host", "dc"), on) for name in (self.name, f"beside{number}")]

    def _create(self, name: str, labels: tuple[str, ...], options: dict[str, str]) -> TableInfo:
        columns = (
            ColumnInfo(0, "ts", MILLIS, Semantic.TIMESTAMP, nullable=False),
            ColumnInfo(1, "f", DOUBLE, Semantic.FIELD),
            *(ColumnInfo(2 + at, label, STRING, Semantic.TAG) for at, label in enumerate(labels)),
        )
        catalog = self._world.catalog
        number = 1024 + len(catalog.by_name)
        draft = TableInfo(number, "public", name, columns, labels, engine="metric", options=options, next_column_id=4)
        physical = self._physical if labels else None
        table = catalog.by_name["public", name] = plan_metric_table(draft, physical, options)
        return table

    def go_through(self, step: Step) -> None:
        engine, region = self._world.engine, self._physical.region_ids[0]
        if step.kind == "flush":
            engine.flush(region).result(timeout=30)
        if step.kind == "put" or (step.kind == "delete" and not self._options.append_mode):
            op = OpType.PUT if step.kind == "put" else OpType.DELETE
            for table in self._tables:
                batch = write_batch(engine.schema(region), table, self._rows(step), op)
                engine.write(region, batch).result(timeout=30)

    @staticmethod
    def _rows(step: Step) -> pa.RecordBatch:
        kinds = {"ts": pa.timestamp("ms"), "host": pa.string(), "dc": pa.string(), "f": pa.float64()}
        columns = {name: pa.array([row.get(name) for row in step.rows], kind) for name, kind in kinds.items()}
        return pa.RecordBatch.from_pydict(columns)
