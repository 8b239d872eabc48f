"""Comparing what a server has with what its writers were promised.

For each request of each writer: its rows are all there as often as the ledger allows, with the right values. What was
acknowledged is there; what is in doubt is there as a whole or not at all, where the protocol promises that; nothing
else is there.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from tests.soak.requests import ROWS, START_MS, STEP_MS, TELNET_TABLE, Table, values_of
from tests.soak.writer import Ledger, Writer, expected_sum

_SECONDS_MAX = 120.0


class Reader:
    """Asks a server by SQL and PromQL."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=_SECONDS_MAX, trust_env=False)

    def sql(self, text: str) -> list[list[Any]]:
        """Run one statement and return its rows; httpx.TransportError when the server is gone."""
        response = self._http.post("/v1/sql", data={"sql": text})
        if response.status_code == 503:
            raise httpx.RemoteProtocolError("the server is stopping")
        assert response.status_code == 200, f"{text}: {response.status_code} {response.text[:1000]}"
        (output,) = response.json()["output"]
        return list(output["records"]["rows"]) if "records" in output else []

    def numbers(self, text: str) -> list[np.ndarray]:
        """Run a query of integer columns and return them."""
        response = self._http.post("/v1/sql?format=csvwithnames", data={"sql": text})
        assert response.status_code == 200, f"{text}: {response.status_code} {response.text[:1000]}"
        table: pa.Table = csv.read_csv(io.BytesIO(response.content))
        return [column.to_numpy() for column in table.columns]

    def promql(self, expression: str, at_seconds: float) -> float:
        """Return the one value of an instant query; 0 if there is none."""
        response = self._http.get("/v1/prometheus/api/v1/query", params={"query": expression, "time": at_seconds})
        if response.status_code == 503:
            raise httpx.RemoteProtocolError("the server is stopping")
        assert response.status_code == 200, f"{expression}: {response.status_code} {response.text[:1000]}"
        result = response.json()["data"]["result"]
        return float(result[0]["value"][1]) if result else 0.0

    def tables(self) -> set[str]:
        return {row[0] for row in self.sql("SHOW TABLES")}

    def close(self) -> None:
        self._http.close()


def tables_of(writer: Writer) -> tuple[Table, ...]:
    return (TELNET_TABLE,) if writer.protocol is None else writer.protocol.tables


def check_all(reader: Reader, writers: Iterable[Writer]) -> int:
    """Compare every request of idle writers; return how many rows there are."""
    known, rows = reader.tables(), 0
    for writer in writers:
        found = {table.name: _read_requests(reader, table, writer, known) for table in tables_of(writer)}
        for table in tables_of(writer):
            problems = find_problems(table, writer.ledger, *found[table.name])
            assert not problems, f"{writer.name} in {table.name}: {'; '.join(problems[:10])}"
            rows += int(found[table.name][1].sum())
        if writer.protocol is not None and writer.protocol.is_one_region:
            first, *others = ({*requests.tolist()} for requests, _, _ in found.values())
            for other in others:
                assert first == other, f"{writer.name}: requests {sorted(first ^ other)[:10]} are not in all tables"
    return rows


def _read_requests(
    reader: Reader, table: Table, writer: Writer, known: set[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The requests of which rows are there, with the number of rows and the sum of values of each."""
    if table.name not in known:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    requests, counts, sums = reader.numbers(
        f"SELECT ({table.time} - {START_MS}) / {STEP_MS * ROWS} AS n, count(*) AS c, sum({table.value}) AS v "
        f'FROM "{table.name}" WHERE "{table.writer}" = \'{writer.name}\' GROUP BY n ORDER BY n'
    )
    return requests, counts, sums


def find_problems(
    table: Table, ledger: Ledger, requests: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> list[str]:
    """What is not as the ledger allows, given the rows and the sum of values found of each request."""
    found = {int(n): (int(c), int(v)) for n, c, v in zip(requests, counts, sums, strict=True)}
    problems = []
    for request in range(max(ledger.following + 1, int(requests.max(initial=-1)) + 1)):
        low, high = ledger.copies(request, is_append=table.is_append)
        count, total = found.get(request, (0, 0))
        copies, rest = divmod(count, ROWS)
        if rest and low == 0 and not table.is_atomic:
            continue
        if rest or not low <= copies <= high or total != copies * expected_sum(request):
            problems.append(
                f"request {request}: {count} rows with the sum {total}; "
                f"expected {ROWS} rows with the sum {expected_sum(request)}, {low} to {high} times"
            )
    return problems


def check_exactly(reader: Reader, writers: Iterable[Writer]) -> int:
    """Compare every single row of idle writers that have nothing in doubt; return how many there are."""
    total = 0
    for writer in writers:
        for table in tables_of(writer):
            times, values = reader.numbers(
                f'SELECT DISTINCT {table.time} AS t, {table.value} AS v FROM "{table.name}" '
                f"WHERE \"{table.writer}\" = '{writer.name}' ORDER BY t"
            )
            numbers, rest = np.divmod(times - START_MS, STEP_MS)
            assert not rest.any(), f"{writer.name} in {table.name}: times that nobody sent"
            assert np.array_equal(values, values_of(numbers)), f"{writer.name} in {table.name}: values that nobody sent"
            acknowledged = np.setdiff1d(
                np.arange(writer.ledger.following), np.array([*writer.ledger.doubtful], np.int64)
            )
            promised = (acknowledged[:, None] * ROWS + np.arange(ROWS)).ravel()
            missing = np.setdiff1d(promised, numbers)
            assert not missing.size, f"{writer.name} in {table.name}: rows {missing[:10]} of {missing.size} are missing"
            total += numbers.size
    return total
