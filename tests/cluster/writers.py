"""Clients that write while nodes fail, and remember what was acknowledged. Others query all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

import httpx

from tests.cluster.readers import Readers, improper
from tests.cluster.running import Cluster

TABLE = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) " + (
    "PARTITION ON COLUMNS (host) (host < 'h1', host >= 'h1' AND host < 'h2', host >= 'h2')"
)


class Writers:
    """A thread for each host, which inserts rows one by one. What fails is tried again, under the same time.

    Readers check meanwhile that queries are answered, and rightly.
    """

    def __init__(
        self,
        cluster: Cluster,
        hosts: int = 4,
        *,
        timeout_seconds: float = 15,
        table: str = "cpu",
        query_headers: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._cluster = cluster
        self.table = table
        self._is_stopped = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: dict[str, int] = {f"h{number}": 0 for number in range(hosts)}
        """By host: rows 1 to this one are acknowledged."""
        self.failures: list[str] = []
        self.failed: dict[str, int] = dict.fromkeys(self.acknowledged, 0)
        """By host: how many of its requests have failed."""
        self.readers = Readers(cluster, self.acknowledged, table=table, headers=query_headers or {})
        self._threads = [threading.Thread(target=self._run, args=(host,), daemon=True) for host in self.acknowledged]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        self.readers.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Unless the test has failed, queries are answered at the end."""
        try:
            if kind is None:
                self.wait_answers(1)
        finally:
            self.stop()
        if kind is None:
            self.readers.check()
        elif self.readers.wrong:
            print("wrong answers:", *self.readers.wrong, sep="\n")

    def stop(self) -> None:
        self._is_stopped.set()
        for thread in self._threads:
            thread.join(60)
        self.readers.end()

    def trouble(self) -> AbstractContextManager[None]:
        """Queries that overlap with this may fail."""
        return self.readers.trouble()

    def wait_answers(self, count: int, seconds_max: float = 120.0, *, hosts: Collection[str] | None = None) -> None:
        """Wait until so many queries of each host, or each of these, were begun and answered after now."""
        self.readers.wait_answers(count, seconds_max, hosts=hosts)

    def wait_progress(self, rows: int, seconds_max: float = 120.0, *, hosts: Collection[str] | None = None) -> None:
        """Wait until each host, or each of these, has so many more rows than now."""
        before = {host: self.acknowledged[host] for host in (hosts or self.acknowledged)}
        self._wait(lambda: all(self.acknowledged[host] >= before[host] + rows for host in before), seconds_max)

    def wait_failure(self, hosts: Collection[str] | None = None, seconds_max: float = 120.0) -> None:
        """Wait until each host, or each of these, has failed once more."""
        before = {host: self.failed[host] for host in (hosts or self.failed)}
        self._wait(lambda: all(self.failed[host] > before[host] for host in before), seconds_max)

    def _wait(self, holds: Callable[[], bool], seconds_max: float) -> None:
        deadline = time.monotonic() + seconds_max
        while not holds():
            self.readers.check()
            assert time.monotonic() < deadline, (self.acknowledged, self.failures[-5:])
            time.sleep(0.05)

    def _run(self, host: str) -> None:
        number, at = 1, hash(host)
        with httpx.Client(timeout=self._timeout_seconds) as client:
            while not self._is_stopped.is_set():
                statement = f"INSERT INTO {self.table} VALUES ('{host}', {number}, {number})"
                at += 1
                frontends = self._cluster.frontends
                try:
                    response = client.post(f"{frontends[at % len(frontends)].url}/v1/sql", data={"sql": statement})
                    error = None if response.status_code == 200 else response.text
                    if error is not None and (wrong := improper(response)) is not None:
                        self.readers.wrong.append(f"{statement} failed improperly: {wrong}")
                except httpx.HTTPError as problem:
                    error = repr(problem)
                if error is None:
                    self.acknowledged[host] = number
                    number += 1
                else:
                    self.failures.append(error)
                    self.failed[host] += 1
                    self._is_stopped.wait(0.05)


def check_rows(cluster: Cluster, writers: Writers, *, frontend: int = 0) -> None:
    """Every row that was acknowledged is there once; at most one more for each host, which was under way."""
    query = f"SELECT host, count(*), count(DISTINCT ts), max(ts) FROM {writers.table} GROUP BY host"
    found = cluster.sql(query, frontend=frontend)
    by_host = {host: (rows, times, last) for host, rows, times, last in found}
    for host, last in writers.acknowledged.items():
        rows, times, newest = by_host.get(host, (0, 0, 0))
        assert rows == times, (host, by_host)
        assert last <= rows <= last + 1, (host, last, by_host)
        assert newest == rows, (host, by_host)
