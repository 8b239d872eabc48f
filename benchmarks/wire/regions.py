"""Regions of a datanode against regions of the own process: the time of requests, rows per second, CPU of writes.

The datanode is a process of its own on the same machine. Rows are host metrics: 4,000 series of ten tags, ten float
fields. A point query is what `SELECT … WHERE hostname = …` asks of a region: plan, then read one series. Ingestion is
line protocol of 5,000 rows a body, parsed and planned by the database; CPU is that of both processes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import Measurement, measure
from benchmarks.ingest.line import BUFFER, NEW_TABLE, ROWS, make_bodies
from tests.remote.world import FakeRoutes
from tsdb.components import LocalOptions, open_local
from tsdb.database import Session
from tsdb.engine import EngineOptions
from tsdb.engine.reading import CellsRequest, CellsRun, Conditions, RunQuery, ScanRequest, TagIs
from tsdb.ingest.influx import parse_lines
from tsdb.kv import MemoryKv
from tsdb.model import TableInfo, TimeRange
from tsdb.remote import RemoteRegions
from tsdb.store import LocalStore
from tsdb.units import Size

BODIES = 60
VERBS = ("create_region", "schema", "write", "open_reader", "alter", "flush", "stat", "time_range", "files")
OPTIONS = EngineOptions(
    num_workers=2,
    max_background_jobs=2,
    global_write_buffer_size=BUFFER,
    global_write_buffer_reject_size=Size(4 * BUFFER),
)
DATANODE = """
import resource, sys
from pathlib import Path
from benchmarks.wire.regions import OPTIONS
from tsdb.engine import Engine, Wal
from tsdb.remote import RegionServer
from tsdb.store import LocalStore

root = Path(sys.argv[1])
server = RegionServer(Engine.open(LocalStore(root), Wal.open(root / "wal")[0], options=OPTIONS))
server.start()
print(server.address, flush=True)
for line in sys.stdin:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, flush=True)
"""


class Datanode:
    """A process that serves regions."""

    def __init__(self, root: Path) -> None:
        arguments = [sys.executable, "-c", DATANODE, str(root)]
        self._process = subprocess.Popen(arguments, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.address = self._read()

    def cpu_seconds(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("cpu\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main() -> Iterator[Measurement]:
    bodies = make_bodies(BODIES)
    for is_remote in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            yield from run(Path(directory), bodies, is_remote=is_remote)


def run(root: Path, bodies: list[bytes], *, is_remote: bool) -> Iterator[Measurement]:
    place = "remote" if is_remote else "local"
    local = open_local(LocalStore(root), MemoryKv(), root / "wal", options=LocalOptions(engine=OPTIONS))
    node = Datanode(root / "node") if is_remote else None
    regions: Any = local.engine
    if node is not None:
        regions = RemoteRegions(FakeRoutes(node.address))
        for verb in VERBS:
            setattr(local.engine, verb, getattr(regions, verb))

    def cpu_seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime + (0.0 if node is None else node.cpu_seconds())

    try:
        session = Session()
        local.database.ingest(parse_lines(bodies[0], now_ns=0), session, NEW_TABLE)
        before = cpu_seconds()
        for body in bodies[1:]:
            local.database.ingest(parse_lines(body, now_ns=0), session, NEW_TABLE)
        yield Measurement(f"{place}: ingestion, CPU", cpu_seconds() - before, (BODIES - 1) * ROWS, "rows")
        table = local.database.services.catalog.find_table("public", "cpu")
        assert table is not None
        (region,) = table.region_ids
        regions.flush(region).result(60)
        for what, ask, amount, unit in requests(regions, table):
            ask()
            yield measure(f"{place}: {what}", ask, amount=amount, unit=unit, repeats=200 if amount == 1 else 5)
    finally:
        if node is not None:
            regions.close()
            node.close()
            for verb in VERBS:
                delattr(local.engine, verb)
        local.close()


def requests(regions: Any, table: TableInfo) -> list[tuple[str, Callable[[], object], float, str]]:
    (region,) = table.region_ids
    one = Conditions(TimeRange.ALL, (TagIs.one_of("hostname", ["host_7"]),))

    def scan(filter: Conditions | None, columns: list[str]) -> int:
        reader = regions.open_reader(region)
        planned = reader.plan_scan(filter)
        rows = 0
        for share in range(planned.shares):
            rows += sum(batch.num_rows for batch in reader.scan(ScanRequest(planned.number, share, columns)))
        reader.release()
        return rows

    def aggregate(filter: Conditions | None) -> None:
        reader = regions.open_reader(region)
        query = RunQuery(("hostname",), states={"usage_0": ("max",), "usage_1": ("max",)}, width=3_600_000_000_000)
        planned = reader.plan_cells(CellsRequest(filter, query))
        reader.cells(CellsRun(planned.number))
        reader.release()

    columns = ["hostname", table.time_index.name, *(f"usage_{number}" for number in range(10))]
    return [
        ("stat", lambda: regions.stat(region), 1, "requests"),
        ("point query", lambda: scan(one, columns), 1, "queries"),
        ("aggregate of a series", lambda: aggregate(one), 1, "queries"),
        ("aggregate of 4,000 series", lambda: aggregate(None), 4_000, "series"),
        ("scan of 12 columns", lambda: scan(None, columns), BODIES * ROWS, "rows"),
    ]
