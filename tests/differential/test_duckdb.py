"""SQL answers compared with DuckDB's, on random tables and queries, with the fast paths on and off.

`TSDB_DUCKDB_EXAMPLES` sets the number of tables (90, each with a few queries). A failure names its seed, which
`TSDB_DUCKDB_SEED` repeats, and prints the statements that made the table.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

import tsdb
from tests.differential.duckdb_queries import Query, Writer
from tests.differential.duckdb_tables import Pair, make_pair

EXAMPLES = int(os.environ.get("TSDB_DUCKDB_EXAMPLES", "90"))
FIRST_SEED = int(os.environ.get("TSDB_DUCKDB_SEED", "0"))
BLOCKS = 10
QUERIES_PER_TABLE = 4
SLACK = 1e-9


@pytest.fixture(scope="module")
def connections() -> Iterator[tuple[tsdb.Connection, duckdb.DuckDBPyConnection]]:
    with tsdb.connect() as db, duckdb.connect() as duck:
        yield db, duck


@pytest.mark.parametrize("block", range(BLOCKS))
def test_answers_are_those_of_duckdb(
    connections: tuple[tsdb.Connection, duckdb.DuckDBPyConnection], block: int
) -> None:
    count = max(1, EXAMPLES // BLOCKS)
    for seed in range(FIRST_SEED + block * count, FIRST_SEED + (block + 1) * count):
        random = Random(seed)
        pair = make_pair(*connections, f"t{seed}", random)
        try:
            writer = Writer(random)
            for _ in range(QUERIES_PER_TABLE):
                check(pair, writer.query(), seed)
        finally:
            drop(pair)


def drop(pair: Pair) -> None:
    pair.db.sql(f"DROP TABLE {pair.name}")
    pair.duck.execute(f"DROP TABLE {pair.name}")


def check(pair: Pair, query: Query, seed: int) -> None:
    wanted = _theirs(pair, query)
    for fast in ("on", "off"):
        pair.db.sql(f"SET series_aggregate = '{fast}'")
        text = query.ours.format(t=pair.name)
        try:
            got: Any = [_plain(row) for row in pair.db.sql(text)]
        except tsdb.TsdbError as error:
            got = error
        if not _agree(got, wanted, is_ordered=query.is_ordered):
            made = ";\n".join(pair.log)
            shown = wanted if isinstance(wanted, Exception) else _shown(wanted, query)
            pytest.fail(
                f"seed {seed}, zone {pair.zone}, series_aggregate {fast}\n{made};\n\n{text}\n"
                f"theirs: {query.theirs}\n"
                f"got    {got if isinstance(got, Exception) else _shown(got, query)}\nwanted {shown}"
            )


def _theirs(pair: Pair, query: Query) -> list[tuple[Any, ...]] | Exception:
    try:
        return [_plain(row) for row in pair.duck.execute(query.theirs.format(t=pair.name)).fetchall()]
    except duckdb.Error as error:
        return error


def _agree(got: Any, wanted: Any, *, is_ordered: bool) -> bool:
    if isinstance(wanted, Exception):
        return True  # DuckDB has limits and defects of its own
    if isinstance(got, Exception):
        return False
    if not is_ordered:
        got, wanted = sorted(got, key=_sort_key), sorted(wanted, key=_sort_key)
    return len(got) == len(wanted) and all(
        len(one) == len(other) and all(map(_is_same, one, other)) for one, other in zip(got, wanted, strict=True)
    )


def _shown(rows: list[tuple[Any, ...]], query: Query) -> list[tuple[Any, ...]]:
    return rows if query.is_ordered else sorted(rows, key=_sort_key)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_plain_value, row))


def _plain_value(value: Any) -> Any:
    """A value without what only one of the two tells: zones, decimals, widths of numbers."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Decimal | int):
        return float(value) if abs(value) < 2**53 else int(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


def _sort_key(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [_rank(value) for value in row]


def _rank(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    if isinstance(value, float) and math.isfinite(value):
        return (0, "number", float(f"{value:.6g}"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, "number", value)
    return (0, type(value).__name__, value)


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, int | float) and isinstance(right, int | float) and type(left) is not bool:
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=SLACK, abs_tol=SLACK)
    return type(left) is type(right) and bool(left == right)
