"""Statements and their results: rows arrive as an Arrow stream and are read batch by batch.

The Arrow format says nothing about a statement without rows, so statements that cannot return many rows are asked for
in JSON, which counts the rows they changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson
import pyarrow as pa
import pyarrow.ipc

from tsdb.cli.server._address import ServerAddress
from tsdb.cli.server._errors import IncompleteAnswer
from tsdb.cli.server._http import FORM, HttpAnswer, send
from tsdb.sql import Dialect
from tsdb.sql.lexer import first_word, skip_blanks

_WORDS_WITH_ROWS = frozenset(
    ("SELECT", "WITH", "SHOW", "DESC", "DESCRIBE", "EXPLAIN", "TQL", "VALUES", "TABLE", "ADMIN", "")
)
_JSON_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class AffectedRows:
    """The result of a statement without rows; the count is unknown if the server did not tell it."""

    rows: int | None


class ResultRows:
    """The rows of a query: a schema, and batches that are read from the connection when they are asked for."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def read_all(self) -> pa.Table:
        """Read everything; for results that are known to be small."""
        return pa.Table.from_batches(list(self._batches), self.schema)


StatementResult = AffectedRows | ResultRows


@contextmanager
def run_statement(
    address: ServerAddress, text: str, *, database: str | None = None, time_zone: str | None = None
) -> Iterator[StatementResult]:
    """Run one SQL statement; the result is to be read inside, leaving earlier cancels the statement."""
    has_rows = first_word(text, skip_blanks(text, 0, Dialect.GENERIC), Dialect.GENERIC) in _WORDS_WITH_ROWS
    fields = {"sql": text, "format": "arrow" if has_rows else "tsdb_v1", **({"db": database} if database else {})}
    headers = {"Content-Type": FORM, **({"x-tsdb-timezone": time_zone} if time_zone else {})}
    params = {"compression": "lz4"} if has_rows else None
    body = urlencode(fields).encode("ascii")
    with send(address, "POST", "/v1/sql", params=params, body=body, headers=headers) as answer:
        yield _read_arrow(answer) if has_rows else _read_json(answer)


@contextmanager
def run_promql(
    address: ServerAddress,
    text: str,
    *,
    database: str | None = None,
    start: float | None = None,
    end: float | None = None,
    step: float = 60.0,
) -> Iterator[StatementResult]:
    """Evaluate an expression from `start` to `end`, or now; the rows are those of TQL: labels, time, value."""
    last = time.time() if end is None else end
    first = last if start is None else start
    params = {
        "query": text,
        "start": f"{first:.3f}",
        "end": f"{last:.3f}",
        "step": f"{step:g}",
        "format": "arrow",
        **({"db": database} if database else {}),
    }
    with send(address, "GET", "/v1/promql", params=params) as answer:
        yield _read_arrow(answer)


def _read_arrow(answer: HttpAnswer) -> StatementResult:
    stream = _Readable(answer)
    if not stream.peek():
        return AffectedRows(None)
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(stream, "r"))
    except pa.ArrowInvalid as error:
        raise IncompleteAnswer(f"the answer is not an Arrow stream: {error}") from error
    return ResultRows(reader.schema, _batches(reader, stream))


def _batches(reader: pa.ipc.RecordBatchStreamReader, stream: _Readable) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            if batch.num_rows:
                yield batch
    except pa.ArrowInvalid as error:
        raise IncompleteAnswer(f"the response was interrupted: {error}") from error
    stream.drain()


class _Readable:
    """The body of an answer as a file that pyarrow reads."""

    closed = False

    def __init__(self, answer: HttpAnswer) -> None:
        self._answer = answer
        self._ahead = b""

    def peek(self) -> bytes:
        """Return the first byte, and keep it for the next read."""
        self._ahead = self._ahead or self._answer.read(1)
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        ahead, self._ahead = self._ahead, b""
        if size < 0:
            return ahead + self._answer.read()
        return ahead + self._answer.read(size - len(ahead)) if size > len(ahead) else ahead

    def drain(self) -> None:
        """Read to the end, so that the connection can be used again."""
        while self._answer.read(1 << 16):
            pass

    def close(self) -> None:
        self.closed = True


def _read_json(answer: HttpAnswer) -> StatementResult:
    body = answer.read(_JSON_BYTES_MAX + 1)
    if len(body) > _JSON_BYTES_MAX:
        raise IncompleteAnswer(f"the response is larger than {_JSON_BYTES_MAX} bytes")
    outputs = orjson.loads(body).get("output") or [{"affectedrows": 0}]
    last = outputs[-1]
    return AffectedRows(last["affectedrows"]) if "affectedrows" in last else _rows_of_json(last["records"])


def _rows_of_json(records: dict[str, object]) -> ResultRows:
    """Rows of a statement that was not expected to have any: shown as text."""
    schema: dict[str, list[dict[str, str]]] = records["schema"]  # type: ignore[assignment]
    rows: list[list[object]] = records["rows"]  # type: ignore[assignment]
    names = [column["name"] for column in schema["column_schemas"]]
    columns = [pa.array([_text(row[at]) for row in rows], pa.string()) for at in range(len(names))]
    batch = pa.RecordBatch.from_arrays(columns, names)
    return ResultRows(batch.schema, iter([batch]))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
