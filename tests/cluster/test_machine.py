"""A random sequence of statements over PyMySQL, and of restarts, kills and moves of regions, against a dictionary.

`TSDB_MACHINE_EXAMPLES` says how many sequences there are, `TSDB_MACHINE_SEED` repeats them. One that fails prints its
seed and everything that was done, as statements that can be run again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.cluster.running import WAIT_SECONDS_MAX, Cluster, Shape, running_cluster
from tests.kv.etcd_process import EtcdProcess
from tests.store.services import S3Server

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

EXAMPLES = int(os.environ.get("TSDB_MACHINE_EXAMPLES", "5"))
SEED = int(os.environ.get("TSDB_MACHINE_SEED", "0")) or random.randrange(1, 1 << 32)
STEPS = 25
TABLES_MAX, COLUMNS_MAX = 3, 3
PARTITIONED = " PARTITION ON COLUMNS (host) (host < 'b', host >= 'b' AND host < 'd', host >= 'd')"

HOSTS = st.sampled_from("abcdef")
TIMES = st.integers(1, 8)
VALUES = st.integers(0, 99)
NODES = st.integers(1, 3)
PLACES = st.integers(0, 1 << 16)


class Table:
    """What a table holds: by host and time, the values of its columns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns = ["v0"]
        self.rows: dict[tuple[str, int], dict[str, int]] = {}

    def expected(self) -> list[tuple[Any, ...]]:
        return [
            (host, ts, *(row.get(column) for column in self.columns)) for (host, ts), row in sorted(self.rows.items())
        ]


class Machine(RuleBasedStateMachine):
    """Statements and failures. What is acknowledged holds, whatever fails meanwhile."""

    cluster: Cluster

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.tables: dict[str, Table] = {}
        self.created = 0
        for name in self._ask("SHOW TABLES"):
            self._run(f"DROP TABLE {name[0]}")

    @precondition(lambda self: len(self.tables) < TABLES_MAX)
    @rule(is_partitioned=st.booleans())
    def create_table(self, is_partitioned: bool) -> None:
        name = f"t{self.created}"
        self.created += 1
        self._run(
            f"CREATE TABLE IF NOT EXISTS {name} (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v0 INT)"
            + (PARTITIONED if is_partitioned else "")
        )
        self.tables[name] = Table(name)

    @precondition(lambda self: self.tables)
    @rule(at=PLACES, values=st.dictionaries(st.tuples(HOSTS, TIMES), VALUES, min_size=1, max_size=6))
    def insert(self, at: int, values: dict[tuple[str, int], int]) -> None:
        table = self._table(at)
        column = table.columns[at % len(table.columns)]
        rows = ", ".join(f"('{host}', {ts}, {value})" for (host, ts), value in values.items())
        self._run(f"INSERT INTO {table.name} (host, ts, {column}) VALUES {rows}")
        for key, value in values.items():
            table.rows[key] = {column: value}

    @precondition(lambda self: self.tables)
    @rule(at=PLACES, host=HOSTS, ts=TIMES)
    def delete(self, at: int, host: str, ts: int) -> None:
        table = self._table(at)
        self._run(f"DELETE FROM {table.name} WHERE host = '{host}' AND ts = {ts}")
        table.rows.pop((host, ts), None)

    @precondition(lambda self: any(len(table.columns) < COLUMNS_MAX for table in self.tables.values()))
    @rule(at=PLACES)
    def add_column(self, at: int) -> None:
        table = self._table(at)
        if len(table.columns) < COLUMNS_MAX:
            column = f"v{len(table.columns)}"
            self._run(f"ALTER TABLE {table.name} ADD COLUMN IF NOT EXISTS {column} INT")
            table.columns.append(column)

    @precondition(lambda self: self.tables)
    @rule(at=PLACES, verb=st.sampled_from(("flush_table", "compact_table")))
    def tidy_up(self, at: int, verb: str) -> None:
        self._run(f"ADMIN {verb}('{self._table(at).name}')")

    @precondition(lambda self: self.tables)
    @rule(at=PLACES)
    def truncate(self, at: int) -> None:
        table = self._table(at)
        self._run(f"TRUNCATE TABLE {table.name}")
        table.rows.clear()

    @precondition(lambda self: len(self.tables) > 1)
    @rule(at=PLACES)
    def drop_table(self, at: int) -> None:
        name = self._table(at).name
        self._run(f"DROP TABLE IF EXISTS {name}")
        del self.tables[name]

    @precondition(lambda self: self.tables)
    @rule(at=PLACES, goal=NODES)
    def migrate(self, at: int, goal: int) -> None:
        """Move a region; a node that has just been killed is not live, so it may be refused."""
        places = self.cluster.place_of(self._table(at).name)
        region, node = sorted(places.items())[at % len(places)]
        if node != goal:
            self._run(f"ADMIN migrate_region({region}, {node}, {goal}, 60)", may_fail=True)

    @rule(node=NODES)
    def kill(self, node: int) -> None:
        self.done.append(f"-- kill -9 of datanode {node}, and start")
        self.cluster.datanodes[node].kill()
        self.cluster.datanodes[node].start()

    @rule(node=NODES)
    def restart(self, node: int) -> None:
        self.done.append(f"-- stop of datanode {node}, and start")
        self.cluster.datanodes[node].stop()
        self.cluster.datanodes[node].start()

    @invariant()
    def tables_hold_what_was_acknowledged(self) -> None:
        for table in self.tables.values():
            text = f"SELECT host, ts::BIGINT AS at, {', '.join(table.columns)} FROM {table.name} ORDER BY 1, 2"
            found = self._ask(text)
            assert found == table.expected(), self._story(f"{text}\nfound {found}\nnot   {table.expected()}")

    def _table(self, at: int) -> Table:
        return self.tables[sorted(self.tables)[at % len(self.tables)]]

    def _run(self, statement: str, *, may_fail: bool = False) -> None:
        self.done.append(statement)
        try:
            self._ask(statement, tries=1 if may_fail else None)
        except AssertionError:
            if not may_fail:
                raise

    def _ask(self, statement: str, tries: int | None = None) -> list[tuple[Any, ...]]:
        """Run a statement; while a node is away it fails, and is run again: each may be run twice."""
        deadline = time.monotonic() + 2 * WAIT_SECONDS_MAX
        port = self.cluster.frontends[0].running.port_of("MySQL")
        while True:
            try:
                with (
                    pymysql.connect(
                        host="127.0.0.1", port=port, user="me", database="public", autocommit=True, read_timeout=120
                    ) as connection,
                    connection.cursor() as cursor,
                ):
                    cursor.execute(statement)
                    return list(cursor.fetchall())
            except pymysql.err.Error as error:
                tries = None if tries is None else tries - 1
                if tries == 0 or time.monotonic() > deadline:
                    raise AssertionError(self._story(f"{statement}\n{error}")) from error
                time.sleep(0.2)

    def _story(self, end: str) -> str:
        return "\n".join([f"TSDB_MACHINE_SEED={SEED}", *self.done, end])


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server) -> Iterator[Cluster]:
    shape = Shape(
        metasrv_environment={"TSDB_METASRV__ENABLE_REGION_FAILOVER": "true"},
        datanode_environment={"TSDB_DATANODE__WAL__SHARED__INTERVAL": "20ms"},
    )
    with running_cluster(tmp_path, shape, etcd=etcd, s3=s3) as cluster:
        yield cluster


def test_any_sequence_of_statements_and_failures_loses_nothing(cluster: Cluster) -> None:
    def make() -> Machine:
        machine = type("ClusterMachine", (Machine,), {"cluster": cluster})
        return machine()

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        phases=[Phase.generate],
        verbosity=Verbosity.normal,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(SEED)(make), settings=chosen)
