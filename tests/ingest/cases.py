r"""Case files of ingestion: bytes in over HTTP, then rows out over SQL, or the exact error.

    # a comment
    POST /v1/influxdb/write?precision=s     a request
    @x-tsdb-hints: ttl=7d                   its headers
    | text gzip                             what makes bytes of the body, see `tests/ingest/bodies.py`; nothing: text
    cpu,host=a v=1 1                        its body, to the next blank line; \e is an empty line, \r ends one

    204                                     the status, and words that the answer contains
    @x-tsdb-err-code: 1004                  a header of the answer

    > SELECT * FROM cpu                     statements as in the case files of SQL
    host | v | tsdb_timestamp
    a    | 1 | 1970-01-01T00:00:01

The directives of SQL case files (`!restart`, `!database d`, …) work too. Each file starts with an empty database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.database.cases import Case, CaseRunner
from tests.ingest.bodies import make_body
from tests.servers.http.asgi_client import Answer, call
from tsdb.database import DatabaseGate
from tsdb.servers.http import (
    HttpApp,
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_api_routes,
    prometheus_remote_routes,
)
from tsdb.units import Duration

METHODS = ("GET ", "POST ", "PUT ", "HEAD ")

ROUTES: list[Callable[[HttpApp, DatabaseGate], object]] = [
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_api_routes,
    prometheus_remote_routes,
]
"""What case files can ask; a protocol adds its own."""


@dataclass(slots=True)
class Exchange:
    """One request and the answer it must get."""

    line: int
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    steps: str = "text"
    body: list[str] = field(default_factory=list)
    expected: str = ""
    expected_headers: list[str] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        lines = [line.replace("\\e", "").replace("\\r", "\r") for line in self.body]
        return make_body("\n".join(lines), self.steps.split())


def read_ingest_cases(path: Path) -> Iterator[Exchange | Case]:
    """Yield the requests and statements of a file, in order."""
    current: Exchange | Case | None = None
    directives: list[str] = []
    is_body = False
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.rstrip()
        if is_body:
            assert isinstance(current, Exchange)
            if not line:
                is_body = False
            elif line.startswith("@") and not current.body:
                name, _, value = line[1:].partition(":")
                current.headers[name.strip()] = value.strip()
            elif line.startswith("| ") and not current.body:
                current.steps = line[2:]
            else:
                current.body.append(line)
        elif line.startswith((*METHODS, "> ", "!")):
            if current is not None:
                yield current
            current = None
            if line.startswith("!"):
                directives.append(line[1:])
            elif line.startswith("> "):
                current, directives = Case(number, line[2:], directives=directives), []
            else:
                method, target = line.split(" ", 1)
                current, directives = Exchange(number, method, target, directives=directives), []
                is_body = True
        elif not line or line.startswith("#"):
            continue
        elif current is None:
            raise ValueError(f"{path.name}:{number}: an answer without a question")
        elif isinstance(current, Exchange):
            if line.startswith("@") and current.expected:
                current.expected_headers.append(line[1:])
            else:
                current.expected = line
        elif not current.expected and line.startswith(" "):
            current.text += "\n" + line
        else:
            current.expected.append(line)
    if current is not None:
        yield current


class IngestRunner(CaseRunner):
    """A database in a directory, the routes in front of it, and the session the cases speak in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._routes: list[object] = []
        self._app = self._make_app()

    def close(self) -> None:
        self._close_routes()
        super().close()

    def direct(self, directive: str) -> None:
        super().direct(directive)
        if directive == "restart":
            self._close_routes()
            self._app = self._make_app()

    def ask(self, exchange: Exchange) -> Answer:
        """Send a request."""
        body = exchange.content if exchange.method != "GET" else None
        return asyncio.run(call(self._app, exchange.method, exchange.target, headers=exchange.headers, body=body))

    def check_exchange(self, exchange: Exchange) -> str | None:
        """Return what is wrong about the answer to a request, None when it is right."""
        for directive in exchange.directives:
            self.direct(directive)
        answer = self.ask(exchange)
        status, _, words = exchange.expected.partition(" ")
        # What is written in protobuf holds texts as they are.
        text = answer.body.decode(errors="replace")
        wanted = [each.partition(":") for each in exchange.expected_headers]
        missing = [name for name, _, value in wanted if answer.headers.get(name.strip().lower()) != value.strip()]
        if answer.status == int(status) and words in text and not missing:
            return None
        got = f"{answer.status} {text} {({name: answer.headers.get(name) for name in missing}) or ''}"
        return "\n".join([f"line {exchange.line}: {exchange.target}", "wanted", exchange.expected, "got", got])

    def check_any(self, case: Exchange | Case) -> str | None:
        return self.check_exchange(case) if isinstance(case, Exchange) else self.check(case)

    def _make_app(self) -> HttpApp:
        app = HttpApp(body_limit=0, timeout=Duration(0))
        self._routes = [add(app, DatabaseGate(self._open.database)) for add in ROUTES]
        return app

    def _close_routes(self) -> None:
        for each in self._routes:
            each.close()  # type: ignore[attr-defined]
