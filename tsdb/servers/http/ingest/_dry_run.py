"""Dry runs: what a write would do, as JSON. For line protocol also what would become of each line.

A request is written or refused as a whole, so one bad line refuses all. A dry run goes on after lines that cannot be
read, because its reader wants to know all of them: each is blanked, and the rest is parsed again by the same parser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsdb.errors import InvalidArguments
from tsdb.ingest import PlannedRows, Rejection, TableRows, WriteOutcome, drop_rejected, rows_with
from tsdb.servers.http.wire import Request, Response

LINES_MAX = 1_000
"""How many lines are described, the first of the request."""
MALFORMED_MAX = 100
"""How many lines that cannot be read are described."""
PARSED_BYTES_MAX = 64 << 20
"""How much is parsed to find them; a larger request gets the first of them only."""


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that cannot be read."""

    line: int
    character: int
    """Where in the line, from 1."""
    reason: str


@dataclass(frozen=True, slots=True)
class DryLines:
    """Lines as a dry run reads them."""

    rows: list[TableRows]
    malformed: tuple[MalformedLine, ...]
    unread_from: int | None = None
    """Lines from here on were not read, because too many before cannot be."""


def is_dry_run(request: Request) -> bool:
    return (request.query.get("dry_run") or "").lower() in ("true", "1")


def read_dry_lines(lines: bytes, parse: Callable[[bytes], list[TableRows]]) -> DryLines:
    """Parse lines, without those that cannot be read."""
    malformed: list[MalformedLine] = []
    parsed_bytes = 0
    while True:
        parsed_bytes += len(lines)
        try:
            return DryLines(parse(lines), tuple(malformed))
        except InvalidArguments as error:
            place, character = error.fields.get("line"), error.fields.get("column")
            if not isinstance(place, int) or not isinstance(character, int):
                raise
            malformed.append(MalformedLine(place, character, str(error)))
        pieces = lines.split(b"\n")
        if len(malformed) >= MALFORMED_MAX or parsed_bytes + len(lines) > PARSED_BYTES_MAX:
            # The lines before the place were read without an error.
            return DryLines(parse(b"\n".join(pieces[: place - 1])), tuple(malformed), unread_from=place + 1)
        pieces[place - 1] = b""
        lines = b"\n".join(pieces)


def dry_run_response(outcome: WriteOutcome) -> Response:
    """Return the response to a dry run."""
    return Response.json(_describe(outcome))


def dry_lines_response(read: DryLines, outcome: WriteOutcome, *, now_ns: int) -> Response:
    """Return the response to a dry run of lines; a line without a time has that of its arrival, `now_ns`."""
    unreadable = tuple(Rejection("", each.reason, place=each.line, kind="syntax") for each in read.malformed)
    if unreadable:
        outcome = WriteOutcome(0, rejections=(*unreadable, *outcome.rejections), planned=outcome.planned)
    described = {each.line: _describe_malformed(each) for each in read.malformed}
    last = _last_line(read.rows)
    planned = {id(each.rows): each for each in outcome.planned}
    _, reasons = drop_rejected(read.rows, [each for each in outcome.rejections if each.table])
    for rows in read.rows:
        described |= _describe_rows(rows, planned.get(id(rows)), reasons, last=last, now_ns=now_ns)
    lines = [described[line] for line in sorted(described)[:LINES_MAX]]
    total = sum(rows.rows for rows in read.rows) + len(read.malformed)
    return Response.json({**_describe(outcome), "lines": lines, "lines_total": total, "unread_from": read.unread_from})


def _describe(outcome: WriteOutcome) -> dict[str, object]:
    return {
        "rows": outcome.rows,
        "created_tables": list(outcome.created_tables),
        "added_columns": [
            {"table": table, "column": column, "type": kind} for table, column, kind in outcome.added_columns
        ],
        "rejections": [_rejection(each) for each in outcome.rejections],
    }


def _rejection(rejection: Rejection) -> dict[str, object]:
    return {
        "table": rejection.table,
        "reason": rejection.reason,
        "place": rejection.place,
        "column": rejection.column,
        "value": rejection.value,
        "rows": rejection.rows,
    }


def _describe_malformed(malformed: MalformedLine) -> dict[str, object]:
    return {
        "line": malformed.line,
        "outcome": "malformed",
        "character": malformed.character,
        "reason": malformed.reason,
    }


def _last_line(tables: Sequence[TableRows]) -> int:
    """The last line that is described."""
    places = np.concatenate([np.zeros(0, np.int64), *(rows.places for rows in tables if rows.places is not None)])
    if len(places) <= LINES_MAX:
        return int(places.max(initial=0))
    return int(np.partition(places, LINES_MAX - 1)[LINES_MAX - 1])


def _describe_rows(
    rows: TableRows, plan: PlannedRows | None, reasons: dict[int, str], *, last: int, now_ns: int
) -> dict[int, dict[str, object]]:
    """Describe the lines of one table, by line; without a plan the table takes none of them."""
    assert rows.places is not None
    shown = np.flatnonzero(rows.places <= last)
    times, unit = (rows.times, rows.unit) if plan is None else (plan.times, plan.unit)
    texts = np.datetime_as_string(times[shown].astype(f"datetime64[{unit}]"))
    added = {} if plan is None else {name: rows_with(rows, name) for name in plan.added_columns}
    described: dict[int, dict[str, object]] = {}
    for at, text in zip(shown.tolist(), texts.tolist(), strict=True):
        line = int(rows.places[at])
        reason = reasons.get(line)
        described[line] = {
            "line": line,
            "outcome": "fits" if reason is None else "refused",
            "table": rows.table,
            "time": f"{text}Z",
            "is_time_of_arrival": bool(rows.times[at] == now_ns),
            "creates_table": plan is not None and plan.creates_table,
            "adds_columns": [name for name, has in added.items() if has[at]],
            "reason": reason,
        }
    return described
