"""A random sequence of statements over PyMySQL, and of restarts, kills and moves of regions, against a dictionary.

Processes of every kind are killed: datanodes, metadata servers and the frontend that is asked. A change of columns may
have taken effect although its answer was lost, so `information_schema.columns` says whether it is to be sent again.

`TSDB_MACHINE_EXAMPLES` says how many sequences there are, `TSDB_MACHINE_SEED` repeats them. One that fails prints its
seed and everything that was done, as statements that can be run again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
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


NAMES = tuple(f"v{number}" for number in range(2 * COLUMNS_MAX))
"""Of columns; one that was dropped may come again, without its values."""
INT, WIDE = "int", "bigint"


class Table:
    """What a table holds: by host and time, the values of its columns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds = {"v0": INT}
        """The types of its columns, in the order in which they were added."""
        self.rows: dict[tuple[str, int], dict[str, int]] = {}

    @property
    def columns(self) -> list[str]:
        return list(self.kinds)

    def column(self, at: int) -> str:
        return self.columns[at % len(self.kinds)]

    def free_name(self, at: int) -> str:
        free = [name for name in NAMES if name not in self.kinds]
        return free[at % len(free)]

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
        column = table.column(at)
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
            column = table.free_name(at)
            self._run(f"ALTER TABLE {table.name} ADD COLUMN IF NOT EXISTS {column} INT")
            table.kinds[column] = INT

    @precondition(lambda self: any(len(table.columns) > 1 for table in self.tables.values()))
    @rule(at=PLACES)
    def drop_column(self, at: int) -> None:
        table = self._table(at)
        if len(table.columns) > 1:
            column = table.column(at)
            self._change(table, f"DROP COLUMN {column}", lambda kinds: column not in kinds)
            del table.kinds[column]
            for row in table.rows.values():
                row.pop(column, None)

    @precondition(lambda self: self.tables)
    @rule(at=PLACES)
    def rename_column(self, at: int) -> None:
        table = self._table(at)
        old, new = table.column(at), table.free_name(at)
        self._change(table, f"RENAME COLUMN {old} TO {new}", lambda kinds: new in kinds and old not in kinds)
        table.kinds = {new if name == old else name: kind for name, kind in table.kinds.items()}
        for row in table.rows.values():
            if old in row:
                row[new] = row.pop(old)

    @precondition(lambda self: self.tables)
    @rule(at=PLACES)
    def widen_column(self, at: int) -> None:
        table = self._table(at)
        column = table.column(at)
        self._change(table, f"MODIFY COLUMN {column} BIGINT", lambda kinds: kinds.get(column) == WIDE)
        table.kinds[column] = WIDE

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

    @rule(number=st.integers(0, 1))
    def kill_metadata_server(self, number: int) -> None:
        self.done.append(f"-- kill -9 of metadata server {number}, and start")
        self.cluster.metasrvs[number].kill()
        self.cluster.metasrvs[number].start()

    @rule()
    def kill_frontend(self) -> None:
        self.done.append("-- kill -9 of the frontend, and start")
        self.cluster.frontends[0].kill()
        self.cluster.frontends[0].start()

    @invariant()
    def columns_are_what_was_acknowledged(self) -> None:
        for table in self.tables.values():
            found, expected = self._kinds(table), {"host": "text", "ts": "timestamp", **table.kinds}
            assert found == expected, self._story(f"columns of {table.name}: {found}\nnot {expected}")

    @invariant()
    def tables_hold_what_was_acknowledged(self) -> None:
        for table in self.tables.values():
            text = f"SELECT host, ts::BIGINT AS at, {', '.join(table.columns)} FROM {table.name} ORDER BY 1, 2"
            found = self._ask(text)
            assert found == table.expected(), self._story(f"{text}\nfound {found}\nnot   {table.expected()}")

    def _table(self, at: int) -> Table:
        return self.tables[sorted(self.tables)[at % len(self.tables)]]

    def _kinds(self, table: Table) -> dict[str, str]:
        """Return the columns of a table and their types."""
        found = self._ask(
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_schema = 'public' AND table_name = '{table.name}'"
        )
        return dict(found)

    def _change(self, table: Table, change: str, is_done: Callable[[dict[str, str]], bool]) -> None:
        """Change a table until the change is seen: its answer may be lost."""
        statement = f"ALTER TABLE {table.name} {change}"
        self.done.append(statement)
        deadline = time.monotonic() + 2 * WAIT_SECONDS_MAX
        while True:
            try:
                self._ask(statement, tries=1)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            if is_done(self._kinds(table)):
                return
            time.sleep(0.2)

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
        metasrvs=2,
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
