"""Views of a physical region: what several logical tables wrote, each reads back alone."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.harness import DIRECTORY, REGION, open_engine
from tests.engine.reads import count_rows, newest_rows
from tests.engine.region_dataset import RegionDataset
from tests.metric.rows import write_batch
from tests.metric.tables import table_of
from tsdb.engine import Engine
from tsdb.engine.scan import scan_series, view_snapshot
from tsdb.metric import plan_metric_table
from tsdb.model import MetricView, OpType, TableInfo, TimeRange, add_labels

PHYSICAL = table_of("phy", (), number=1024, options={"physical_metric_table": ""})
LABELS = {"m0": ("host", "zone"), "m1": ("job", "host"), "m2": ()}
TABLES = [
    replace(
        plan_metric_table(
            table_of(name, labels, options={"on_physical_table": "phy"}), PHYSICAL, {"on_physical_table"}
        ),
        id=1025 + at,
    )
    for at, (name, labels) in enumerate(LABELS.items())
]

Key = tuple[int, tuple[str | None, ...], int]

KEYS = st.integers(0, len(TABLES) - 1).flatmap(
    lambda at: st.tuples(
        st.just(at),
        st.tuples(*[st.sampled_from([None, "", "a", "b"]) for _ in TABLES[at].tags]),
        st.integers(0, 5),
    )
)


@dataclass(frozen=True)
class Write:
    """Rows of one table, put or deleted; afterwards perhaps a flush."""

    rows: dict[Key, float]
    is_delete: bool
    flushes: bool


WRITES = st.lists(
    st.builds(Write, st.dictionaries(KEYS, st.floats(-9, 9), min_size=1, max_size=8), st.booleans(), st.booleans()),
    max_size=6,
)


def rows_of(table: TableInfo, keys: list[tuple[tuple[str | None, ...], int]], values: list[float]) -> pa.RecordBatch:
    columns = {tag.name: pa.array([key[0][at] for key in keys], pa.string()) for at, tag in enumerate(table.tags)}
    columns["ts"] = pa.array([key[1] for key in keys], pa.timestamp("ms"))
    return pa.RecordBatch.from_pydict(columns | {"val": pa.array(values, pa.float64())})


def write(engine: Engine, wanted: Write) -> None:
    op = OpType.DELETE if wanted.is_delete else OpType.PUT
    for at, table in enumerate(TABLES):
        rows = {key[1:]: value for key, value in wanted.rows.items() if key[0] == at}
        if rows:
            batch = write_batch(engine.schema(REGION), table, rows_of(table, list(rows), list(rows.values())), op)
            engine.write(REGION, batch).result(timeout=30)
    if wanted.flushes:
        engine.flush(REGION).result(timeout=30)


def create(engine: Engine) -> None:
    engine.create_region(REGION, DIRECTORY, PHYSICAL.first_region_schema(), None)


def view_of(table: TableInfo) -> MetricView:
    assert table.view is not None
    return table.view


def open_table(engine: Engine, table: TableInfo, visible: tuple[int, ...] | None = None) -> RegionDataset:
    return RegionDataset(engine.open_reader(REGION, view=replace(view_of(table), visible=visible)))


def read(dataset: RegionDataset, table: TableInfo, filter: pc.Expression | None = None) -> dict[Key, float]:
    """Every row of a table, which must come once."""
    names = [*(tag.name for tag in table.tags), "ts", "val"]
    rows: dict[Key, float] = {}
    for fragment in dataset.get_fragments(filter=filter):
        for batch in fragment.scanner(columns=names, filter=filter).to_batches():
            values = [batch.column(name).to_pylist() for name in names[:-2]]
            times = batch.column("ts").cast(pa.int64()).to_pylist()
            for at, (time, value) in enumerate(zip(times, batch.column("val").to_pylist(), strict=True)):
                key = (TABLES.index(table), tuple(column[at] for column in values), time)
                assert key not in rows
                rows[key] = value
    return rows


@settings(max_examples=25, deadline=None)
@given(WRITES, st.sampled_from(["a", "b", ""]), st.integers(0, 5))
def test_every_table_reads_what_was_written_to_it(writes: list[Write], host: str, since: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = open_engine(Path(directory))
        try:
            create(engine)
            model: dict[Key, float] = {}
            for each in writes:
                write(engine, each)
                model = {key: value for key, value in model.items() if not (each.is_delete and key in each.rows)}
                model |= {} if each.is_delete else each.rows
            for at, table in enumerate(TABLES):
                check_table(engine, table, {key: value for key, value in model.items() if key[0] == at}, host, since)
        finally:
            engine.close(flush=False)


def check_table(engine: Engine, table: TableInfo, wanted: dict[Key, float], host: str, since: int) -> None:
    assert read(open_table(engine, table), table) == wanted
    assert count_rows(view_snapshot(engine.snapshot(REGION), view_of(table))) == len(wanted)
    recent = (pc.field("ts") >= pa.scalar(since, pa.timestamp("ms"))) & (pc.field("val") > 0)
    found = read(open_table(engine, table), table, recent)
    assert found == {key: value for key, value in wanted.items() if key[2] >= since and value > 0}
    if "host" in table.by_name:
        place = table.primary_key.index("host")
        of_host = {key: value for key, value in wanted.items() if key[1][place] == host}
        chosen = pc.field("host") == host
        assert read(open_table(engine, table), table, chosen) == of_host
        check_series(engine, table, of_host, chosen)


def check_series(engine: Engine, table: TableInfo, wanted: dict[Key, float], chosen: pc.Expression) -> None:
    """The same through the readers of whole series and for newest rows."""
    scan = scan_series(view_snapshot(engine.snapshot(REGION), view_of(table)), chosen, TimeRange.ALL, ["val"])
    tags = [tuple(row[name] for name in table.primary_key) for row in scan.series.read_tags().to_pylist()]
    values = scan.fields["val"].to_pylist()
    found = {
        (TABLES.index(table), labels, int(scan.times[at])): values[at]
        for number, labels in enumerate(tags)
        for at in range(int(scan.offsets[number]), int(scan.offsets[number + 1]))
    }
    assert found == wanted
    newest = newest_rows(view_snapshot(engine.snapshot(REGION), view_of(table)), chosen, [*table.primary_key, "val"])
    last = {key[1]: value for key, value in sorted(wanted.items(), key=lambda item: item[0][2])}
    assert {tuple(row[name] for name in table.primary_key): row["val"] for row in newest.to_pylist()} == last


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    opened = open_engine(tmp_path)
    create(opened)
    return opened


def test_a_physical_table_shows_rows_of_tables_that_exist(engine: Engine) -> None:
    write(engine, Write({(0, ("a", None), 1): 1.0, (1, ("a", "b"), 2): 2.0, (2, (), 3): 3.0}, False, True))
    physical = add_labels(PHYSICAL, ["host", "job", "zone"])
    dataset = open_table(engine, physical, (TABLES[0].id, TABLES[2].id))
    names = ["__table_id", "host", "job", "zone", "val"]
    rows = pa.Table.from_batches(dataset.scanner(columns=names).to_batches()).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1025, "a", None, None, 1.0), (1027, None, None, None, 3.0)]
    engine.close(flush=False)


def test_filters_on_labels_leave_out_rows_of_other_tables_and_series_unread(engine: Engine) -> None:
    write(engine, Write({(0, (host, None), time): 1.0 for host in ("a", "b") for time in range(50)}, False, False))
    write(engine, Write({(1, (host, "j"), time): 1.0 for host in ("a", "b") for time in range(50)}, False, True))
    dataset = open_table(engine, TABLES[0])
    assert len(read(dataset, TABLES[0], pc.field("host") == "a")) == 50
    assert dataset.statistics["series_kept"] == 1
    assert dataset.statistics["rows_read"] == 50
    engine.close(flush=False)


def test_a_view_keeps_its_snapshot_until_it_is_released(engine: Engine) -> None:
    write(engine, Write({(2, (), 1): 1.0}, False, True))
    whole = engine.snapshot(REGION)
    view = view_snapshot(whole, view_of(TABLES[2]))
    assert not whole.is_released
    view.release()
    assert whole.is_released
    engine.close(flush=False)
