"""Random tables with a past, once here and once in DuckDB.

A table goes through inserts, updates (a row of the same key again), deletes, flushes and compactions. What it must hold
afterwards is computed by `Model`, a dictionary of rows by key, and loaded into DuckDB. So DuckDB answers over what the
table means, whatever files and memtables it is made of here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import tsdb

MODES = {
    "last_row": "",
    "last_non_null": " WITH (merge_mode = 'last_non_null')",
    "append": " WITH (append_mode = 'true')",
}
FIELDS = ("f", "g", "i", "b", "s", "o")
COLUMNS = ("host", "dc", "ts", *FIELDS)
_SCHEMA = pa.schema(
    [
        ("host", pa.string()),
        ("dc", pa.string()),
        ("ts", pa.timestamp("ms", "UTC")),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("i", pa.int32()),
        ("b", pa.int64()),
        ("s", pa.string()),
        ("o", pa.bool_()),
    ]
)
_HOSTS = ("a", "b", "c", "Ä b", None)
_DCS = ("x", "y", None)
# Around both changes to and from daylight saving time, around new year, and long ago.
_MOMENTS = (
    datetime(2024, 3, 31, tzinfo=UTC),
    datetime(2024, 10, 27, tzinfo=UTC),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 22, tzinfo=UTC),
)
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns")

Row = dict[str, Any]


@dataclass(slots=True)
class Model:
    """What a table must hold."""

    mode: str
    rows: list[Row] = field(default_factory=list)

    def put(self, row: Row) -> None:
        if self.mode != "append":
            old = next((each for each in self.rows if _key(each) == _key(row)), None)
            if old is not None:
                self.rows.remove(old)
                if self.mode == "last_non_null":
                    row = {name: old[name] if value is None else value for name, value in row.items()}
        self.rows.append(row)

    def delete(self, host: str | None, start: datetime, end: datetime) -> None:
        self.rows = [each for each in self.rows if not (each["host"] == host and start <= each["ts"] < end)]


def _key(row: Row) -> tuple[Any, ...]:
    return row["host"], row["dc"], row["ts"]


@dataclass(slots=True)
class Pair:
    """The same table here and in DuckDB, and how it came about."""

    db: tsdb.Connection
    duck: duckdb.DuckDBPyConnection
    name: str
    zone: str
    mode: str
    log: list[str] = field(default_factory=list)

    def run(self, text: str) -> None:
        self.log.append(text)
        self.db.sql(text)


def make_pair(db: tsdb.Connection, duck: duckdb.DuckDBPyConnection, name: str, random: Random) -> Pair:
    """Make a random table in both."""
    mode, zone = random.choice(list(MODES)), random.choice(ZONES)
    pair = Pair(db, duck, name, zone, mode)
    pair.run("SET time_zone = 'UTC'")
    regions = random.choice(("", "", " PARTITION ON COLUMNS (host) (host < 'b', host >= 'b')"))
    pair.run(
        f"CREATE TABLE {name} (host STRING, dc STRING, ts TIMESTAMP(3) TIME INDEX, f DOUBLE, g DOUBLE, i INT, b BIGINT,"
        f" s STRING, o BOOLEAN, PRIMARY KEY (host, dc)){regions}{MODES[mode]}"
    )
    model = Model(mode)
    for _ in range(random.randint(1, 6)):
        _step(pair, model, random)
    columns = {each.name: pa.array([row[each.name] for row in model.rows], each.type) for each in _SCHEMA}
    frame = pa.table(columns, _SCHEMA)
    duck.register("__frame", frame)
    duck.execute(f"CREATE TABLE {name} AS SELECT * FROM __frame")
    duck.unregister("__frame")
    duck.execute(f"SET TimeZone = '{zone}'")
    pair.run(f"SET time_zone = '{zone}'")
    return pair


def _step(pair: Pair, model: Model, random: Random) -> None:
    kind = random.choice(("put", "put", "put", "flush", "delete", "compact"))
    if kind == "put":
        rows = [_row(random, model) for _ in range(random.randint(1, 12))]
        for row in rows:
            model.put(row)
        values = ", ".join(f"({', '.join(_literal(row[name]) for name in COLUMNS)})" for row in rows)
        pair.run(f"INSERT INTO {pair.name} ({', '.join(COLUMNS)}) VALUES {values}")
    elif kind == "flush":
        pair.run(f"ADMIN flush_table('{pair.name}')")
    elif kind == "compact":
        pair.run(f"ADMIN compact_table('{pair.name}')")
    elif pair.mode != "append":
        host, start = random.choice(_HOSTS), random.choice(_MOMENTS)
        end = start + timedelta(hours=random.randint(1, 30))
        model.delete(host, start, end)
        tag = "host IS NULL" if host is None else f"host = {_literal(host)}"
        pair.run(f"DELETE FROM {pair.name} WHERE {tag} AND ts >= {_literal(start)} AND ts < {_literal(end)}")


def _row(random: Random, model: Model) -> Row:
    if model.rows and random.random() < 0.3:
        key = random.choice(model.rows)
        host, dc, ts = key["host"], key["dc"], key["ts"]
    else:
        host, dc = random.choice(_HOSTS), random.choice(_DCS)
        ts = random.choice(_MOMENTS) + timedelta(minutes=random.randint(-3 * 60, 30 * 60))
        ts += timedelta(milliseconds=random.choice((0, 0, 1, 999)))
    return {
        "host": host,
        "dc": dc,
        "ts": ts,
        "f": _maybe(random, random.randint(-400, 400) / 8),
        "g": _maybe(random, random.choice((math.nan, math.inf, -math.inf, 0.0, 1.5, -2.25))),
        "i": _maybe(random, random.randint(-50, 50)),
        "b": _maybe(random, random.choice((random.randint(-(10**6), 10**6), 2**53 + 1, -(2**60), 2**60))),
        "s": _maybe(random, random.choice(("", "p", "q", "P q", "it's", "é%_", "longer text"))),
        "o": _maybe(random, random.random() < 0.5),
    }


def _maybe(random: Random, value: Any) -> Any:
    return None if random.random() < 0.15 else value


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"'{value.replace(tzinfo=None).isoformat(sep=' ', timespec='milliseconds')}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    return repr(value)
