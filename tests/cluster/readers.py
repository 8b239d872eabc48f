"""Clients that query while nodes fail, and check that no answer is older than what was known before they asked.

For each host, rows 1 to n are written in this order. An answer must have them without a hole and without a second one,
at least as many as were acknowledged before the query began, and at least as many as an earlier answer had. A query may
fail only while a test says that there is trouble, and only with an error that tells a client what to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.running import Cluster
from tsdb.errors import Status

PROPER = {
    Status.REGION_NOT_READY,
    Status.REGION_BUSY,
    Status.TABLE_UNAVAILABLE,
    Status.STORAGE_UNAVAILABLE,
    Status.DEADLINE_EXCEEDED,
    Status.SUSPENDED,
    Status.RUNTIME_RESOURCES_EXHAUSTED,
}
"""Errors after which a client tries again."""
PAUSE_SECONDS = 0.1
TIMEOUT_SECONDS = 90.0
"""Longer than any frontend lets a query wait."""
NUMBER_MAX = 999_999
"""Rows of these clients have numbers up to this one, and rows of tests other ones."""
WRONG_MAX = 20

Counts = Mapping[str, int]


def improper(response: httpx.Response) -> str | None:
    """What is wrong with the error of a response: clients could not tell from it that they may try again."""
    with suppress(ValueError, KeyError, TypeError):
        answer = response.json()
        is_retried = response.status_code == 408 or (response.status_code >= 500 and answer["code"] in PROPER)
        if is_retried and answer["error"]:
            return None
    return f"HTTP {response.status_code}: {response.text[:500]}"


@dataclass(frozen=True)
class Answer:
    """The rows of one host: how many, how many different ones, and the last one."""

    rows: int
    times: int
    last: int

    def wrong(self, least: int) -> str | None:
        if self.rows != self.times:
            return f"{self.rows - self.times} rows are there twice"
        if self.rows != self.last:
            return f"{self.last - self.rows} rows are missing before row {self.last}"
        if self.rows < least:
            return f"{self.rows} rows, but {least} were there before"
        return None


class Readers:
    """A thread for each host, and one for all hosts together; each asks the frontends in turn."""

    def __init__(
        self, cluster: Cluster, acknowledged: Counts, *, table: str = "cpu", headers: Mapping[str, str]
    ) -> None:
        self._cluster = cluster
        self._acknowledged = acknowledged
        self._table = table
        self._headers = headers
        self._is_stopped = threading.Event()
        self._lock = threading.Lock()
        self._seen = dict.fromkeys(acknowledged, 0)
        """By host, how many rows some answer had."""
        self.answers = dict.fromkeys(acknowledged, 0)
        """By host, how many queries were answered."""
        self.errors = 0
        self.wrong: list[str] = []
        self.lossy: set[str] = set()
        """Hosts of which acknowledged rows are expected to be missing for a while."""
        self._trouble = 0
        self._trouble_ends = 0
        targets: list[Sequence[str]] = [[host] for host in acknowledged]
        self._threads = [
            threading.Thread(target=self._run, args=(hosts, at), daemon=True)
            for at, hosts in enumerate([*targets, list(acknowledged)])
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._is_stopped.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_SECONDS)

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Queries that overlap with this may fail."""
        with self._lock:
            self._trouble += 1
        try:
            yield
        finally:
            with self._lock:
                self._trouble -= 1
                self._trouble_ends += 1

    def wait_answers(self, count: int, seconds_max: float, *, hosts: Collection[str] | None = None) -> None:
        """Wait until so many queries of each host, or each of these, were begun and answered after now."""
        before = {host: self.answers[host] for host in hosts or self.answers}
        deadline = time.monotonic() + seconds_max
        # Two more, because two queries of each host may have begun before now.
        while any(self.answers[host] < before[host] + count + 2 for host in before):
            self.check()
            assert time.monotonic() < deadline, (self.answers, self.errors)
            time.sleep(0.05)

    def check(self) -> None:
        assert not self.wrong, self.wrong

    def _run(self, hosts: Sequence[str], at: int) -> None:
        with httpx.Client(timeout=TIMEOUT_SECONDS, headers=self._headers) as client:
            while not self._is_stopped.wait(PAUSE_SECONDS):
                at += 1
                frontends = self._cluster.frontends
                frontend = frontends[at % len(frontends)]
                if len(hosts) > 1:
                    query = self._all_hosts
                else:
                    query = self._aggregate if at // len(frontends) % 2 else self._rows
                self._ask(client, frontend.url, hosts, query)

    def _ask(
        self,
        client: httpx.Client,
        url: str,
        hosts: Sequence[str],
        query: Callable[[Sequence[str]], tuple[str, Callable[[Any], dict[str, Answer]]]],
    ) -> None:
        statement, read = query(hosts)
        with self._lock:
            least = {host: max(self._acknowledged[host], self._seen[host]) for host in hosts}
            had_trouble, ends = self._trouble > 0, self._trouble_ends
            lossy = set(self.lossy)
        error: str | None = None
        is_improper = False
        try:
            response = client.post(f"{url}/v1/sql", data={"sql": statement})
        except httpx.HTTPError as problem:
            error = repr(problem)
        else:
            if response.status_code != 200:
                error, is_improper = response.text[:500], improper(response) is not None
        with self._lock:
            if error is not None:
                self.errors += 1
                has_trouble = had_trouble or self._trouble > 0 or self._trouble_ends != ends
                if is_improper or not has_trouble:
                    self._note(f"{time.strftime('%T')} {url} {hosts} failed{' improperly' * is_improper}: {error}")
                return
            found = read(response.json()["output"][0]["records"]["rows"])
            for host in hosts:
                answer = found.get(host, Answer(0, 0, 0))
                wrong = answer.wrong(least[host]) if host not in lossy | self.lossy else None
                if wrong is not None:
                    self._note(f"{time.strftime('%T')} {url} {host}: {wrong} ({answer}) of {statement}")
                self._seen[host] = max(self._seen[host], answer.rows) if host not in self.lossy else 0
                self.answers[host] += 1

    def _note(self, wrong: str) -> None:
        if len(self.wrong) < WRONG_MAX:
            self.wrong.append(wrong)

    # Queries, each with how its answer is read

    def _aggregate(self, hosts: Sequence[str]) -> tuple[str, Callable[[Any], dict[str, Answer]]]:
        (host,) = hosts
        statement = (
            f"SELECT host, count(*), count(DISTINCT ts), max(CAST(ts AS BIGINT)) FROM {self._table} "
            f"WHERE host = '{host}' AND ts BETWEEN 1 AND {NUMBER_MAX} GROUP BY host"
        )
        return statement, _read_counts

    def _rows(self, hosts: Sequence[str]) -> tuple[str, Callable[[Any], dict[str, Answer]]]:
        (host,) = hosts
        statement = (
            f"SELECT CAST(ts AS BIGINT) FROM {self._table} WHERE host = '{host}' AND ts BETWEEN 1 AND {NUMBER_MAX}"
        )

        def read(rows: Any) -> dict[str, Answer]:
            times = [at for (at,) in rows]
            return {host: Answer(len(times), len(set(times)), max(times, default=0))}

        return statement, read

    def _all_hosts(self, hosts: Sequence[str]) -> tuple[str, Callable[[Any], dict[str, Answer]]]:
        statement = (
            f"SELECT host, count(*), count(DISTINCT ts), max(CAST(ts AS BIGINT)) FROM {self._table} "
            f"WHERE ts BETWEEN 1 AND {NUMBER_MAX} GROUP BY host"
        )
        return statement, _read_counts


def _read_counts(rows: Any) -> dict[str, Answer]:
    return {host: Answer(count, times, last) for host, count, times, last in rows}
