"""Servers with the rows of `benchmarks.peers`, and how long they take to answer its questions."""

from __future__ import annotations

import time
from urllib.parse import urlencode

from benchmarks.peers import TSDB, Devops, HttpClient, Question, make_questions, send_rows
from tests.server_process import ServerProcess

HOSTS, HOURS = 100, 12
QUESTIONS = make_questions(HOSTS, HOURS)


def make_rows() -> Devops:
    """Return 4.3 million values."""
    return Devops.make(HOSTS, HOURS)


class Asked:
    """A server, and one connection to it."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._client = HttpClient(server.url)

    def load(self, data: Devops) -> None:
        send_rows(data, self._server.url, "/v1/influxdb/write?db=public")
        for statement in ("ADMIN flush_table('cpu')", "ADMIN compact_table('cpu')"):
            self.run(statement)

    def run(self, statement: str) -> bytes:
        return self._client.get("/v1/sql?" + urlencode({"sql": statement}))

    def seconds(self, question: Question) -> float:
        """Return how long an answer takes until its last byte."""
        path = "/v1/sql?" + urlencode({"sql": TSDB.write(question)})
        start = time.perf_counter()
        self._client.get(path)
        return time.perf_counter() - start
