"""An import in a terminal: the bar advances with the rows, Ctrl-C interrupts it, the same command continues it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.clients import sql
from tests.cli.holding_proxy import SECONDS_MAX, proxy_of
from tests.cli.terminal import CTRL_C, Terminal, terminal
from tests.server_process import TSDB, ServerProcess
from tsdb.cli.transfer._read_parquet import BATCH_ROWS

BATCHES = int(os.environ.get("TSDB_IMPORT_ROWS", "30000")) // BATCH_ROWS
ROWS = BATCHES * BATCH_ROWS
_START = 1_700_000_000_000


def _parquet(path: Path) -> Path:
    numbers = np.arange(ROWS)
    times = pa.array(_START + numbers, pa.timestamp("ms"))
    hosts = pa.array([f"h{number % 50}" for number in range(ROWS)])
    pq.write_table(pa.table({"host": hosts, "ts": times, "n": numbers}), path, row_group_size=25_000)
    return path


@pytest.mark.timeout(max(300, ROWS // 1000))
def test_the_bar_advances_with_the_rows_and_an_interrupted_import_of_parquet_has_exactly_its_rows(
    server: ServerProcess, tmp_path: Path
) -> None:
    source, state = _parquet(tmp_path / "seen.parquet"), tmp_path / "state.json"
    command = [*TSDB, "import", str(source), "--tags", "host", "--state", str(state), "--in-flight", "1"]
    first, second = BATCHES // 3, BATCHES // 3 * 2
    with proxy_of(server) as proxy:
        command += ["--url", proxy.url]
        proxy.allow(first, holds=True)
        with terminal(command, columns=220) as screen:
            _expect_rows(screen, first)
            proxy.allow(second - first, holds=True)
            _expect_rows(screen, second)
            assert proxy.in_part.wait(SECONDS_MAX)
            screen.type(CTRL_C)
            screen.expect("interrupted; the same command continues the import", SECONDS_MAX)
            assert screen.wait(SECONDS_MAX) == 130
        proxy.drop()
        with terminal(command, columns=220) as screen:
            screen.expect(f"continues after {second * BATCH_ROWS:,} rows; --restart starts over", SECONDS_MAX)
            _expect_rows(screen, BATCHES)
            screen.expect(f"{source}: {ROWS:,} rows, ", SECONDS_MAX)
            assert screen.wait(SECONDS_MAX) == 0
        assert proxy.requests == BATCHES - second, "only what was not acknowledged was written"
    assert not state.exists()
    assert sql(server, "SELECT count(*), sum(n), count(DISTINCT ts) FROM seen") == [
        [ROWS, ROWS * (ROWS - 1) // 2, ROWS]
    ]


def _expect_rows(screen: Terminal, batches: int) -> None:
    """Wait for the bar to show so many rows, and the rate."""
    screen.expect(rf"━+ *{batches * BATCH_ROWS:,}/{ROWS:,} rows, [\d,]+ rows/s", SECONDS_MAX)
