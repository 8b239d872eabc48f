"""tsdb beside other databases, on this machine: `python -m benchmarks peers [--hosts N] [--hours N]`.

The data and the queries are those of the devops use case of TSBS, `cpu-only`: hosts with ten tags report ten whole
numbers every 10 s. Every server starts empty with its default settings, gets the rows by line protocol over HTTP on
four connections, and then answers one client on one connection. Each query is asked 20 times, with hosts and a time
range that vary and are the same for all databases; ranges of twelve hours are cut to the hours of the data. A time ends
with the last byte of the answer, which is JSON. Rows are flushed, or visible, before the first query.

DuckDB has no server: it reads a Parquet file in this process, and its answers are Arrow tables.
All databases must answer the same number of values.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ingest.line import send_all
from tests.server_process import running

START_S = 1_451_606_400
STEP_S = 10
MINUTE_S = 60
HOUR_S = 3600
WINDOW_HOURS = 12
REPEATS = 20
LIMIT = 5
"""How many minutes groupby-orderby-limit returns."""
CONNECTIONS = 4
BODY_ROWS = 5000
READY_SECONDS_MAX = 60.0
FIELDS = tuple(
    f"usage_{name}"
    for name in ("user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
)
TAGS = ("hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "environment")


@dataclass(frozen=True)
class Devops:
    """Rows of all hosts at one time, then of all hosts at the next."""

    tags: list[tuple[str, ...]]
    values: npt.NDArray[np.int64]
    """By step, host and field."""

    @classmethod
    def make(cls, hosts: int, hours: int) -> Devops:
        steps = hours * HOUR_S // STEP_S
        generator = np.random.default_rng(1)
        values = generator.integers(0, 101, (1, hosts, len(FIELDS))) + np.zeros((steps, 1, 1), np.int64)
        walk = np.cumsum(generator.normal(0, 1, values.shape), axis=0)
        # A walk between 0 and 100 that turns back at both ends.
        values = np.abs((values + walk.round().astype(np.int64)) % 200 - 100)
        return cls([make_tags(host) for host in range(hosts)], values)

    @property
    def rows(self) -> int:
        return int(self.values.shape[0] * self.values.shape[1])

    def bodies(self) -> list[bytes]:
        keys = ["cpu," + ",".join(map("=".join, zip(TAGS, tags, strict=True))) for tags in self.tags]
        form = ",".join(f"{field}=%di" for field in FIELDS)
        lines = (
            f"{key} {form % tuple(row)} {START_S + step * STEP_S}000000000\n"
            for step, rows in enumerate(self.values)
            for key, row in zip(keys, rows.tolist(), strict=True)
        )
        return ["".join(islice(lines, BODY_ROWS)).encode() for _ in range(0, self.rows, BODY_ROWS)]

    def table(self) -> pa.Table:
        steps, hosts, _ = self.values.shape
        times = np.repeat(START_S + np.arange(steps) * STEP_S, hosts)
        numbers = pa.array(np.tile(np.arange(hosts, dtype=np.int32), steps))
        tags = {
            tag: pa.DictionaryArray.from_arrays(numbers, [row[at] for row in self.tags]).cast(pa.string())
            for at, tag in enumerate(TAGS)
        }
        fields = {field: self.values[:, :, at].reshape(-1) for at, field in enumerate(FIELDS)}
        return pa.table({"ts": pa.array(times, pa.timestamp("s")), **tags, **fields})


def make_tags(host: int) -> tuple[str, ...]:
    region = ("eu-central-1", "us-west-2", "ap-south-1")[host % 3]
    more = (str(host % 100), "Ubuntu22.04", "x64", "LON", str(host % 20), str(host % 2), "production")
    return (f"host_{host}", region, f"{region}{'abc'[host % 2]}", *more)


@dataclass(frozen=True)
class Question:
    """One query of TSBS with its hosts and its time range."""

    query: str
    fields: tuple[str, ...]
    hosts: tuple[str, ...]
    start_s: int
    end_s: int


def make_questions(hosts: int, hours: int) -> dict[str, list[Question]]:
    """Make each query as often as it is asked."""
    chance = random.Random(1)
    window = min(WINDOW_HOURS, hours)

    def make(
        query: str, fields: int, hosts_asked: int = 0, hours_asked: int = window, align_s: int = HOUR_S
    ) -> Question:
        names = tuple(f"host_{host}" for host in chance.sample(range(hosts), min(hosts, hosts_asked)))
        start = START_S + chance.randrange(0, (hours - hours_asked) * HOUR_S + 1, align_s)
        return Question(query, FIELDS[:fields], names, start, start + hours_asked * HOUR_S)

    everything = len(FIELDS)
    makers = {
        "single-groupby-1-1-1": lambda: make("single-groupby", 1, 1, 1, MINUTE_S),
        "single-groupby-5-8-1": lambda: make("single-groupby", 5, 8, 1, MINUTE_S),
        "double-groupby-1": lambda: make("double-groupby", 1),
        "double-groupby-all": lambda: make("double-groupby", everything),
        "high-cpu-all": lambda: make("high-cpu-all", everything),
        "lastpoint": lambda: make("lastpoint", everything, hours_asked=hours),
        "groupby-orderby-limit": lambda: make("groupby-orderby-limit", 1, 0, 1, MINUTE_S),
    }
    return {name: [maker() for _ in range(REPEATS)] for name, maker in makers.items()}


@dataclass(frozen=True)
class Dialect:
    """What differs between the databases with SQL."""

    time: str
    minute: str
    hour: str
    lastpoint: str

    def write(self, question: Question) -> str:
        start, end = (
            f"'{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}'" for at in (question.start_s, question.end_s)
        )
        within = f"{self.time} >= {start} AND {self.time} < {end}"
        match question.query:
            case "single-groupby":
                hosts = ", ".join(f"'{host}'" for host in question.hosts)
                where = f"hostname IN ({hosts}) AND {within}"
                return f"{self._maxima(question)} WHERE {where} GROUP BY minute ORDER BY minute"
            case "groupby-orderby-limit":
                where = f"{self.time} < {end}"
                return f"{self._maxima(question)} WHERE {where} GROUP BY minute ORDER BY minute DESC LIMIT {LIMIT}"
            case "double-groupby":
                means = ", ".join(f"avg({field}) AS mean_{field}" for field in question.fields)
                grouped = "GROUP BY hour, hostname ORDER BY hour, hostname"
                return f"SELECT {self.hour} AS hour, hostname, {means} FROM cpu WHERE {within} {grouped}"
            case "high-cpu-all":
                return f"SELECT * FROM cpu WHERE usage_user > 90.0 AND {within}"
        return self.lastpoint

    def _maxima(self, question: Question) -> str:
        maxima = ", ".join(f"max({field}) AS max_{field}" for field in question.fields)
        return f"SELECT {self.minute} AS minute, {maxima} FROM cpu"


def newest_of_fields(form: str) -> str:
    return f"SELECT hostname, {', '.join(form.format(field) for field in FIELDS)} FROM cpu GROUP BY hostname"


TSDB = Dialect(
    time="tsdb_timestamp",
    minute="date_bin(INTERVAL '1 minute', tsdb_timestamp)",
    hour="date_bin(INTERVAL '1 hour', tsdb_timestamp)",
    lastpoint=newest_of_fields("last_value({0} ORDER BY tsdb_timestamp) AS {0}"),
)
QUESTDB = Dialect(
    time="timestamp",
    minute="timestamp_floor('m', timestamp)",
    hour="timestamp_floor('h', timestamp)",
    lastpoint=f"SELECT hostname, {', '.join(FIELDS)} FROM cpu LATEST ON timestamp PARTITION BY hostname",
)
DUCKDB = Dialect(
    time="ts",
    minute="time_bucket(INTERVAL '1 minute', ts)",
    hour="time_bucket(INTERVAL '1 hour', ts)",
    lastpoint=newest_of_fields("arg_max({0}, ts) AS {0}"),
)


def write_metricsql(question: Question) -> str:
    """Return the path of a query, without the cache of results, which the other databases do not have.

    A window of MetricsQL ends with its time, which is the last second of a bucket of SQL.
    """
    start, last = question.start_s, question.end_s - 1
    names = f'__name__=~"cpu_({"|".join(question.fields)})"'
    match question.query:
        case "single-groupby":
            series = f'{{{names},hostname=~"{"|".join(question.hosts)}"}}'
            return range_path(f"max(max_over_time({series}[1m])) by (__name__)", start + MINUTE_S - 1, last, MINUTE_S)
        case "groupby-orderby-limit":
            first = last - (LIMIT - 1) * MINUTE_S
            return range_path(f"max(max_over_time({{{names}}}[1m])) by (__name__)", first, last, MINUTE_S)
        case "double-groupby":
            means = f"avg(avg_over_time({{{names}}}[1h])) by (__name__, hostname)"
            return range_path(means, start + HOUR_S - 1, last, HOUR_S)
        case "high-cpu-all":
            return range_path(f"{{{names}}} and on (hostname) (cpu_usage_user > 90)", start, last, STEP_S)
    newest = f"last_over_time({{{names}}}[{question.end_s - start}s])"
    return "/api/v1/query?" + urlencode({"query": newest, "time": last, "nocache": 1})


def range_path(query: str, start_s: int, end_s: int, step_s: int) -> str:
    options = {"query": query, "start": start_s, "end": end_s, "step": step_s, "nocache": 1}
    return "/api/v1/query_range?" + urlencode(options)


class HttpClient:
    """One connection that is kept."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)

    def get(self, path: str) -> bytes:
        return self._send("GET", path)

    def post(self, path: str, body: bytes) -> bytes:
        return self._send("POST", path, body)

    def _send(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path[:200]}: {response.status} {content[:500]!r}")
        return content


@dataclass(frozen=True)
class Loaded:
    """A database with the rows in it."""

    seconds: float | None
    """How long they took to write by line protocol; none if it has no such thing."""
    prepare: Callable[[Question], Callable[[], Any]]
    """Return what asks a question."""
    count: Callable[[Any], int]
    """Return the number of rows of an answer, or of values if it has no rows."""


@dataclass(frozen=True)
class Peer:
    """A database to compare."""

    name: str
    missing: Callable[[], str]
    """Return how to install it, or nothing if it is here."""
    open: Callable[[Devops, Path], AbstractContextManager[Loaded]]
    has_rows: bool = True


def send_rows(data: Devops, url: str, path: str) -> float:
    """Write all rows over some connections; the bodies are ready before the clock starts."""
    bodies = data.bodies()
    clients = [HttpClient(url) for _ in range(CONNECTIONS)]
    return send_all(bodies, [lambda body, client=client: client.post(path, body) for client in clients])


def ask_by_get(client: HttpClient, write: Callable[[Question], str]) -> Callable[[Question], Callable[[], bytes]]:
    def prepare(question: Question) -> Callable[[], bytes]:
        path = write(question)
        return lambda: client.get(path)

    return prepare


@contextmanager
def open_tsdb(data: Devops, directory: Path) -> Iterator[Loaded]:
    def count(answer: bytes) -> int:
        return len(json.loads(answer)["output"][0]["records"]["rows"])

    def path_of(sql: str) -> str:
        return "/v1/sql?" + urlencode({"sql": sql})

    with running("standalone", directory) as server:
        seconds = send_rows(data, server.url, "/v1/influxdb/write?db=public")
        client = HttpClient(server.url)
        client.get(path_of("ADMIN flush_table('cpu')"))
        yield Loaded(seconds, ask_by_get(client, lambda question: path_of(TSDB.write(question))), count)


@contextmanager
def open_victoriametrics(data: Devops, directory: Path) -> Iterator[Loaded]:
    def count(answer: bytes) -> int:
        return sum(len(series.get("values", "1")) for series in json.loads(answer)["data"]["result"])

    url = f"http://127.0.0.1:{free_port()}"
    options = (f"-httpListenAddr={urlsplit(url).netloc}", f"-storageDataPath={directory}", "-retentionPeriod=100y")
    with started([find_victoriametrics(), *options], directory, f"{url}/health"):
        seconds = send_rows(data, url, "/write")
        client = HttpClient(url)
        client.get("/internal/force_flush")
        yield Loaded(seconds, ask_by_get(client, write_metricsql), count)


@contextmanager
def open_questdb(data: Devops, directory: Path) -> Iterator[Loaded]:
    def count(answer: bytes) -> int:
        return len(json.loads(answer)["dataset"])

    def path_of(sql: str) -> str:
        return "/exec?" + urlencode({"query": sql})

    url = f"http://127.0.0.1:{free_port()}"
    settings = {
        "QDB_HTTP_BIND_TO": urlsplit(url).netloc,
        **{f"QDB_{part}_ENABLED": "false" for part in ("HTTP_MIN", "PG", "LINE_TCP", "TELEMETRY")},
    }
    command = ["java", "-p", os.environ["QUESTDB_BIN"], "-m", "io.questdb/io.questdb.ServerMain", "-d", str(directory)]
    with started(command, directory, f"{url}/exec?query=SELECT%201", settings):
        seconds = send_rows(data, url, "/write")
        client = HttpClient(url)
        # Rows that it has acknowledged become visible later.
        deadline = time.monotonic() + READY_SECONDS_MAX
        while json.loads(client.get(path_of("SELECT count() FROM cpu")))["dataset"] != [[data.rows]]:
            if time.monotonic() > deadline:
                raise RuntimeError("QuestDB does not show all rows")
            time.sleep(0.1)
        yield Loaded(seconds, ask_by_get(client, lambda question: path_of(QUESTDB.write(question))), count)


@contextmanager
def open_duckdb(data: Devops, directory: Path) -> Iterator[Loaded]:
    import duckdb

    file = directory / "cpu.parquet"
    pq.write_table(data.table().sort_by([("hostname", "ascending"), ("ts", "ascending")]), file)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW cpu AS SELECT * FROM '{file}'")

        def prepare(question: Question) -> Callable[[], pa.Table]:
            text = DUCKDB.write(question)
            return lambda: connection.sql(text).to_arrow_table()

        yield Loaded(None, prepare, len)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def started(
    command: list[str], directory: Path, ready_url: str, settings: dict[str, str] | None = None
) -> Iterator[None]:
    """Run a server until the end of the block, which begins when the server answers."""
    output = directory / "output"
    with output.open("wb") as sink:
        variables = {**os.environ, **(settings or {})}
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=variables)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not answers(ready_url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not start:\n{output.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        HttpClient(url).get(f"{parts.path}?{parts.query}")
    except (OSError, http.client.HTTPException, RuntimeError):
        return False
    return True


def find_victoriametrics() -> str:
    return shutil.which(os.environ.get("VICTORIAMETRICS_BIN", "victoria-metrics")) or ""


def miss_victoriametrics() -> str:
    if find_victoriametrics():
        return ""
    return "install the Debian package victoria-metrics, or set VICTORIAMETRICS_BIN to the binary of a release"


def miss_questdb() -> str:
    if os.environ.get("QUESTDB_BIN") and shutil.which("java"):
        return ""
    return "install Java 17 or newer and set QUESTDB_BIN to questdb.jar (org.questdb:questdb of Maven Central)"


def miss_duckdb() -> str:
    return "" if importlib.util.find_spec("duckdb") else "install the Python package duckdb"


PEERS = (
    Peer("tsdb", lambda: "", open_tsdb),
    Peer("VictoriaMetrics", miss_victoriametrics, open_victoriametrics, has_rows=False),
    Peer("QuestDB", miss_questdb, open_questdb),
    Peer("DuckDB", miss_duckdb, open_duckdb),
)


@dataclass(frozen=True)
class Result:
    """What was measured of one database."""

    rows_per_second: float | None
    medians_ms: dict[str, float]
    values: dict[str, list[int]]
    """How many the answers of a query have."""


def run_peer(peer: Peer, data: Devops, questions: dict[str, list[Question]]) -> Result:
    with tempfile.TemporaryDirectory() as name, peer.open(data, Path(name)) as loaded:
        medians, values = {}, {}
        for query, asked in questions.items():
            values_per_row = len(asked[0].fields) if peer.has_rows else 1
            seconds, counts = zip(*(run_question(loaded, question) for question in asked), strict=True)
            medians[query] = statistics.median(seconds) * 1e3
            values[query] = [count * values_per_row for count in counts]
        return Result(None if loaded.seconds is None else data.rows / loaded.seconds, medians, values)


def run_question(loaded: Loaded, question: Question) -> tuple[float, int]:
    """Return how long an answer took and its count; what is asked is ready before the clock starts."""
    ask = loaded.prepare(question)
    began = time.perf_counter()
    answer = ask()
    return time.perf_counter() - began, loaded.count(answer)


def check_answers(name: str, result: Result, first: Result) -> None:
    for query, counts in result.values.items():
        if counts != first.values[query]:
            raise RuntimeError(f"{query}: {name} answers {counts} values, tsdb {first.values[query]}")


def format_table(results: dict[str, Result]) -> str:
    lines = ["| |" + "".join(f" {name} |" for name in results), "|---|" + "---|" * len(results)]
    loads = ("—" if each.rows_per_second is None else f"{each.rows_per_second:,.0f}" for each in results.values())
    lines.append("| load, rows/s |" + "".join(f" {load} |" for load in loads))
    for query in next(iter(results.values())).medians_ms:
        lines.append(f"| {query}, ms |" + "".join(f" {each.medians_ms[query]:.2f} |" for each in results.values()))
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description="compare tsdb with other databases")
    parser.add_argument("--hosts", type=int, default=100, help="how many hosts report (100)")
    parser.add_argument("--hours", type=int, default=6, help="for how many hours (6)")
    options = parser.parse_args(arguments)
    if options.hosts < 1 or options.hours < 1:
        parser.error("at least one host and one hour are needed")
    data = Devops.make(options.hosts, options.hours)
    questions = make_questions(options.hosts, options.hours)
    print(f"{data.rows:,} rows of {options.hosts} hosts; medians of {REPEATS} queries in milliseconds", flush=True)
    results: dict[str, Result] = {}
    for peer in PEERS:
        if missing := peer.missing():
            print(f"{peer.name} is left out: {missing}", flush=True)
            continue
        results[peer.name] = run_peer(peer, data, questions)
        check_answers(peer.name, results[peer.name], results["tsdb"])
    print(format_table(results))
