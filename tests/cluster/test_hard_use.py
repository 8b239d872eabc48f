"""A frontend and datanodes with little memory in hard use: many connections, clients that leave, hostile statements, a
datanode that hangs. Whatever one client does, the others are answered.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pymysql
import pytest
from pymysql.cursors import SSCursor

from tests.cluster.running import Cluster, Node, Shape, running_cluster, wait_for

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`"),
]

LIMIT_BYTES = 512 << 20
SLACK_BYTES = 256 << 20
"""What a process may hold beyond its limit: libraries, and what is given back late."""
SECONDS_MAX = 120
CONNECTIONS = 60
ROWS_EACH = 10
TABLE = (
    "CREATE TABLE {name} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'h2', host >= 'h2' AND host < 'h4', host >= 'h4')"
)
HOSTILE = (
    "SELECT count(*) FROM generate_series(1, 10000000) a CROSS JOIN generate_series(1, 10000000) b",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t",
    "SELECT length(a) FROM " + "(SELECT a || a AS a FROM " * 6 + "(SELECT repeat('x', 100000000) AS a)" + ")" * 6,
    "SELECT count(*) FROM big a JOIN big b ON a.v <> b.v",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    limits = {f"TSDB_{component}__MEMORY__LIMIT": "512MB" for component in ("FRONTEND", "DATANODE")}
    shape = Shape(has_node_proxies=True, datanode_environment=limits, frontend_environment=limits)
    with running_cluster(tmp_path_factory.mktemp("hard"), shape) as cluster:
        cluster.sql(TABLE.format(name="big"))
        for part in range(5):
            values = f"'h' || (value % 6), {part * 100_000} + value, value"
            cluster.sql(f"INSERT INTO big SELECT {values} FROM generate_series(1, 100000) AS t (value)", timeout=120)
        yield cluster


def mysql(cluster: Cluster, **options: Any) -> pymysql.Connection[Any]:
    port = cluster.frontends[0].running.port_of("MySQL")
    return pymysql.connect(
        host="127.0.0.1", port=port, user="me", database="public", read_timeout=SECONDS_MAX, autocommit=True, **options
    )


def postgres(cluster: Cluster) -> psycopg.Connection[Any]:
    port = cluster.frontends[0].running.port_of("Postgres")
    return psycopg.connect(host="127.0.0.1", port=port, user="me", dbname="public", autocommit=True, connect_timeout=60)


def metric(node: Node, name: str) -> float:
    page = httpx.get(f"{node.url}/metrics", timeout=SECONDS_MAX).text
    found = re.search(rf"^{name} (\S+)$", page, flags=re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def resident_bytes(node: Node) -> int:
    text = Path(f"/proc/{node.running.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) << 10


def idle(cluster: Cluster) -> None:
    """Wait until no datanode works for a client."""
    names = ("tsdb_region_server_running", "tsdb_region_server_waiting", "tsdb_region_server_readers")
    wait_for(lambda: all(metric(node, name) == 0 for node in cluster.datanodes.values() for name in names))


def write_rows(run: Callable[[str], object], table: str, host: str) -> None:
    for number in range(ROWS_EACH):
        run(f"INSERT INTO {table} VALUES ('{host}', {number}, {number})")


def use_mysql(cluster: Cluster, table: str, host: str) -> object:
    with mysql(cluster) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+08:00'")
        write_rows(cursor.execute, table, host)
        cursor.execute(f"SELECT count(*), min(ts) FROM {table} WHERE host = '{host}'")
        ((count, first),) = cursor.fetchall()
        return count, str(first)


def use_postgres(cluster: Cluster, table: str, host: str) -> object:
    with postgres(cluster) as connection, connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'Asia/Tokyo'")
        write_rows(cursor.execute, table, host)  # type: ignore[arg-type]
        cursor.execute(f"SELECT count(*), min(ts) FROM {table} WHERE host = '{host}'")  # type: ignore[arg-type]
        ((count, first),) = cursor.fetchall()
        return count, str(first)


def use_http(cluster: Cluster, table: str, host: str) -> object:
    with httpx.Client(timeout=SECONDS_MAX) as client:

        def run(text: str) -> Any:
            answer = client.post(f"{cluster.url}/v1/sql", data={"sql": text}, headers={"x-tsdb-timezone": "-03:00"})
            assert answer.status_code == 200, answer.text
            return answer.json()["output"][-1]

        write_rows(run, table, host)
        ((count, first),) = run(f"SELECT count(*), min(ts)::STRING FROM {table} WHERE host = '{host}'")["records"][
            "rows"
        ]
        return count, first


def test_sixty_connections_of_three_protocols_in_three_time_zones(cluster: Cluster) -> None:
    cluster.sql(TABLE.format(name="crowd"))
    uses = (use_mysql, use_postgres, use_http)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        jobs = [pool.submit(uses[at % 3], cluster, "crowd", f"h{at % 6}-{at}") for at in range(CONNECTIONS)]
        answers = [job.result() for job in jobs]
    first = {use: answers[at] for at, use in enumerate(("mysql", "postgres", "http"))}
    assert [count for count, _ in answers] == [ROWS_EACH] * CONNECTIONS  # type: ignore[misc]
    assert all(answers[at] == answers[at % 3] for at in range(CONNECTIONS)), first
    assert first["mysql"] == (ROWS_EACH, "1970-01-01 08:00:00"), first
    assert first["postgres"] == (ROWS_EACH, "1970-01-01 09:00:00"), first
    assert first["http"] == (ROWS_EACH, "1969-12-31T21:00:00"), first
    assert cluster.sql("SELECT count(*), count(DISTINCT host) FROM crowd") == [[CONNECTIONS * ROWS_EACH, CONNECTIONS]]
    idle(cluster)


def test_datanodes_stop_for_a_client_that_leaves_in_the_middle_of_a_large_answer(cluster: Cluster) -> None:
    for _ in range(3):
        connection = mysql(cluster, cursorclass=SSCursor)
        cursor = connection.cursor()
        cursor.execute("SELECT a.host, a.ts, b.v FROM big a JOIN big b ON a.host = b.host")
        assert cursor.fetchone() is not None
        connection._force_close()
        cursor._result.unbuffered_active = False  # type: ignore[union-attr]
        cursor.connection = None  # type: ignore[assignment]
    with httpx.stream(
        "POST",
        f"{cluster.url}/v1/sql",
        data={"sql": "SELECT * FROM big"},
        params={"format": "csv"},
        timeout=SECONDS_MAX,
    ) as answer:
        next(answer.iter_bytes())
    idle(cluster)
    wait_for(lambda: cluster.sql("SELECT count(*) FROM information_schema.process_list") == [[1]])


@pytest.mark.parametrize("statement", HOSTILE)
def test_a_hostile_statement_ends_at_its_deadline_and_others_are_answered(cluster: Cluster, statement: str) -> None:
    def run() -> str:
        with mysql(cluster) as connection, connection.cursor() as cursor:
            cursor.execute("SET max_execution_time = 5000")
            try:
                cursor.execute(statement)
            except pymysql.err.Error as error:
                return str(error)
            return "answered"

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(run) for _ in range(4)]
        for _ in range(20):
            assert cluster.sql("SELECT count(*) FROM big WHERE host = 'h1' AND ts < 1000") == [[167]]
        ends = [job.result(SECONDS_MAX) for job in jobs]
    assert "answered" not in ends, ends
    idle(cluster)


def test_processes_stay_within_their_memory_under_load(cluster: Cluster) -> None:
    cluster.sql(TABLE.format(name="loaded"))
    most: dict[str, int] = {}
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.2):
            for node in cluster.nodes:
                most[node.name] = max(most.get(node.name, 0), resident_bytes(node))

    def write(part: int) -> None:
        for at in range(10):
            start = (part * 10 + at) * 20_000
            values = f"'h' || (value % 6) || '-' || (value % 5000), {start} + value, value"
            cluster.sql(f"INSERT INTO loaded SELECT {values} FROM generate_series(1, 20000) AS t (value)", timeout=300)

    def ask(_: int) -> None:
        for _ in range(5):
            for text in (
                "SELECT host, avg(v), max(ts) FROM loaded GROUP BY host ORDER BY 2 DESC LIMIT 10",
                "SELECT * FROM loaded ORDER BY v DESC LIMIT 1000",
                "SELECT count(DISTINCT v) FROM loaded",
            ):
                with suppress(AssertionError):
                    cluster.sql(text, timeout=300)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda at: write(at) if at < 4 else ask(at), range(8)))
    finally:
        is_over.set()
        watcher.join()
    assert cluster.sql("SELECT count(*) FROM loaded", timeout=300) == [[800_000]]
    assert all(held <= LIMIT_BYTES + SLACK_BYTES for held in most.values()), most
    idle(cluster)


@pytest.fixture
def frozen(cluster: Cluster) -> Iterator[str]:
    """The name of a table of one region, on a datanode that hangs until the test ends; `other` is on another node."""
    for name in ("hung", "other"):
        cluster.sql(f"CREATE TABLE IF NOT EXISTS {name} (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
        cluster.sql(f"INSERT INTO {name} VALUES ('a', 1000, 1)")
    (node,), (other,) = cluster.place_of("hung").values(), cluster.place_of("other").values()
    if node == other:
        target = next(each for each in cluster.datanodes if each != node)
        cluster.sql(f"ADMIN migrate_region({next(iter(cluster.place_of('other')))}, {other}, {target}, 60)")
    cluster.to_datanode[node].freeze()
    try:
        yield "hung"
    finally:
        cluster.to_datanode[node].thaw()
        wait_for(lambda: is_back(cluster))


def is_back(cluster: Cluster) -> bool:
    """Whether the table can be read; for a while the datanode counts as one that does not answer."""
    with suppress(AssertionError):
        return bool(cluster.sql("SELECT count(*) FROM hung") == [[1]])
    return False


def kill_all(cluster: Cluster, part: str, count: int) -> None:
    """Wait until so many statements run that have a text in them, and kill them."""
    wait_for(lambda: statements(cluster, part) > count)
    for (number,) in cluster.sql(f"SELECT id FROM information_schema.process_list WHERE query LIKE '%{part}%'"):
        with suppress(AssertionError):
            cluster.sql(f"KILL '{number}'")


def test_promql_that_waits_for_a_datanode_that_hangs_can_be_cancelled(cluster: Cluster, frozen: str) -> None:
    def ask() -> httpx.Response:
        params = {"query": f"sum({frozen})", "time": "1"}
        return httpx.get(f"{cluster.url}/v1/prometheus/api/v1/query", params=params, timeout=SECONDS_MAX)

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(ask) for _ in range(3)]
        kill_all(cluster, f"sum({frozen})", 3)
        answers = [job.result(SECONDS_MAX).json() for job in jobs]
    assert [answer["errorType"] for answer in answers] == ["canceled"] * 3, answers


@pytest.mark.parametrize("path", ["series", "labels", "label/host/values"])
def test_listings_that_wait_for_a_datanode_that_hangs_can_be_cancelled(
    cluster: Cluster, frozen: str, path: str
) -> None:
    def ask() -> httpx.Response:
        params = {"match[]": f'{frozen}{{host="a"}}', "start": "0", "end": "10"}
        return httpx.get(f"{cluster.url}/v1/prometheus/api/v1/{path}", params=params, timeout=SECONDS_MAX)

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(ask) for _ in range(3)]
        kill_all(cluster, f"{frozen}{{host", 3)
        answers = [job.result(SECONDS_MAX).json() for job in jobs]
    assert [answer["errorType"] for answer in answers] == ["canceled"] * 3, answers


def test_sixty_small_queries_of_three_protocols_are_answered_while_others_hang(cluster: Cluster, frozen: str) -> None:
    """As long as there are some that hang: each of them is asked again when it has failed."""
    is_over = threading.Event()

    def hang(ask: Callable[[str], object]) -> None:
        while not is_over.is_set():
            with suppress(pymysql.err.Error, psycopg.Error, AssertionError, httpx.HTTPError):
                ask(f"SELECT count(v) FROM {frozen}")

    def by_mysql(text: str) -> object:
        with mysql(cluster) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()[0][0]

    def by_postgres(text: str) -> object:
        with postgres(cluster) as connection:
            return connection.execute(text).fetchall()[0][0]  # type: ignore[call-overload]

    def by_http(text: str) -> object:
        return cluster.sql(text, timeout=SECONDS_MAX)[0][0]

    ways = (by_mysql, by_postgres, by_http)
    with ThreadPoolExecutor(12) as pool:
        hanging = [pool.submit(hang, way) for way in ways for _ in range(4)]
        try:
            # For a while after the datanode was given up, they fail at once instead.
            wait_for(lambda: statements(cluster, f"FROM {frozen}") > 1)
            answers = [way("SELECT count(*) FROM other") for _ in range(20) for way in ways]
        finally:
            is_over.set()
        for job in hanging:
            job.result(SECONDS_MAX)
    assert answers == [1] * 60


def test_others_are_answered_while_many_wait_for_a_datanode_that_hangs(cluster: Cluster, frozen: str) -> None:
    def by_mysql() -> object:
        with mysql(cluster) as connection, connection.cursor() as cursor:
            try:
                return cursor.execute(f"SELECT count(v) FROM {frozen}")
            except pymysql.err.Error as error:
                return str(error)

    def by_http() -> object:
        return httpx.post(f"{cluster.url}/v1/sql", data={"sql": f"SELECT sum(v) FROM {frozen}"}, timeout=SECONDS_MAX)

    with ThreadPoolExecutor(40) as pool:
        waiting: list[Future[object]] = [pool.submit(use) for _ in range(20) for use in (by_mysql, by_http)]
        wait_for(lambda: statements(cluster, f"FROM {frozen}") > 1)
        with mysql(cluster) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM other")
            assert cursor.fetchall() == ((1,),)
        assert cluster.sql("SELECT count(*) FROM other") == [[1]]
        ends = [job.result(SECONDS_MAX) for job in waiting]
    # Those whose turn came late are past their own timeout.
    texts = [str(getattr(end, "text", end)) for end in ends]
    assert not [each for each in texts if "does not answer" not in each and "took longer" not in each]


def statements(cluster: Cluster, part: str) -> int:
    """How many statements run that have a text in them, with this one."""
    found = cluster.sql(f"SELECT count(*) FROM information_schema.process_list WHERE query LIKE '%{part}%'")
    return int(found[0][0])
