"""Processes that stand still for moments, as they do on a busy machine: each query gets its own answer."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from tests.cluster.running import Cluster, Node, metric, wait_for

HOSTS, ROWS = 40, 30
CLIENTS = 6
QUERIES = int(os.environ.get("TSDB_STUTTER_QUERIES", "60"))
"""For each client."""
STILL_SECONDS_MAX, GOES_ON_SECONDS_MAX = 0.02, 0.01
TABLE = (
    "CREATE TABLE stutter (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'h20', host >= 'h20')"
)


def value_of(host: int, at: int) -> float:
    return host * 1000.0 + at


def few_rows(client: httpx.Client, host: int, least: int) -> tuple[object, object]:
    found = rows_of(client, f"SELECT v FROM stutter WHERE host = 'h{host:02}' AND ts >= {least} ORDER BY ts LIMIT 3")
    return found, [[value_of(host, at)] for at in range(least, ROWS)][:3]


def all_rows(client: httpx.Client, host: int, least: int) -> tuple[object, object]:
    found = rows_of(client, f"SELECT v, host FROM stutter WHERE host = 'h{host:02}' AND ts >= {least}")
    return sorted(found), [[value_of(host, at), f"h{host:02}"] for at in range(least, ROWS)]


def aggregate(client: httpx.Client, host: int, least: int) -> tuple[object, object]:
    text = f"SELECT max(v), min(v), count(*) FROM stutter WHERE host = 'h{host:02}' AND ts >= {least}"
    return rows_of(client, text), [[value_of(host, ROWS - 1), value_of(host, least), ROWS - least]]


def groups(client: httpx.Client, host: int, least: int) -> tuple[object, object]:
    last = min(host + 3, HOSTS)
    found = rows_of(
        client,
        f"SELECT host, sum(v) FROM stutter WHERE host >= 'h{host:02}' AND host < 'h{last:02}' AND ts >= {least} "
        "GROUP BY host ORDER BY host",
    )
    each = [(one, sum(value_of(one, at) for at in range(least, ROWS))) for one in range(host, last)]
    return found, [[f"h{one:02}", total] for one, total in each]


def promql(client: httpx.Client, host: int, least: int) -> tuple[object, object]:
    parameters = {"query": f'stutter{{host="h{host:02}"}}', "time": f"{least / 1000:.3f}"}
    (found,) = client.get("/v1/prometheus/api/v1/query", params=parameters).json()["data"]["result"]
    return (found["metric"]["host"], float(found["value"][1])), (f"h{host:02}", value_of(host, least))


ASKS: tuple[Callable[[httpx.Client, int, int], tuple[object, object]], ...] = (
    few_rows,
    few_rows,
    all_rows,
    aggregate,
    groups,
    promql,
)


def rows_of(client: httpx.Client, text: str) -> list[list[object]]:
    response = client.post("/v1/sql", data={"sql": text})
    assert response.status_code == 200, f"{text}: {response.text}"
    rows: list[list[object]] = response.json()["output"][0]["records"]["rows"]
    return rows


@contextmanager
def stuttering(nodes: list[Node], seed: int) -> Iterator[None]:
    """Let one process after the other stand still for a moment."""
    chosen, over = random.Random(seed), threading.Event()

    def stutter() -> None:
        while not over.is_set():
            node = chosen.choice(nodes)
            node.pause()
            over.wait(chosen.uniform(0, STILL_SECONDS_MAX))
            node.resume()
            over.wait(chosen.uniform(0, GOES_ON_SECONDS_MAX))

    thread = threading.Thread(target=stutter, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(600)
def test_every_query_gets_its_own_answer(cluster: Cluster) -> None:
    seed = int(os.environ.get("TSDB_STUTTER_SEED", random.randrange(1 << 32)))
    cluster.sql(TABLE)
    rows = ", ".join(f"('h{host:02}', {at}, {value_of(host, at)})" for host in range(HOSTS) for at in range(ROWS))
    cluster.sql(f"INSERT INTO stutter (host, ts, v) VALUES {rows}")

    def ask(number: int) -> list[str]:
        chosen, wrong = random.Random(seed + number), []
        with httpx.Client(base_url=cluster.frontends[number % 2].url, timeout=120) as client:
            for _ in range(QUERIES):
                kind, host, least = chosen.choice(ASKS), chosen.randrange(HOSTS), chosen.randrange(ROWS)
                found, expected = kind(client, host, least)
                if found != expected:
                    wrong.append(f"{kind.__name__} of host {host} from {least}: {found}, not {expected}")
        return wrong

    with stuttering([*cluster.frontends, *cluster.datanodes.values()], seed), ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(ask, number) for number in range(CLIENTS)]
        wrong = [each for answer in answers for each in answer.result()]
    wait_for(lambda: not any(metric(node, "tsdb_region_server_readers") for node in cluster.datanodes.values()))
    assert not wrong, f"TSDB_STUTTER_SEED={seed}: {len(wrong)} answers are wrong: {wrong[:5]}"
