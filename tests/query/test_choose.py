"""The table of decisions: for each text, which way it is answered and why."""

from __future__ import annotations

import pytest

from tsdb.errors import InvalidSyntax
from tsdb.model import ColumnInfo, DataType, Kind, Semantic, TableInfo
from tsdb.query import Channel, Session
from tsdb.query.choose import Decision, Planned, choose
from tsdb.sql.lexer import tokenize
from tsdb.sql.select import Select, parse_query

_KINDS = {
    "ts": (Kind.TIMESTAMP_MILLISECOND, Semantic.TIMESTAMP),
    "host": (Kind.STRING, Semantic.TAG),
    "dc": (Kind.STRING, Semantic.TAG),
    "f": (Kind.FLOAT64, Semantic.FIELD),
    "n": (Kind.INT64, Semantic.FIELD),
    "s": (Kind.STRING, Semantic.FIELD),
    "b": (Kind.BOOLEAN, Semantic.FIELD),
}


def _table(name: str, engine: str = "mito") -> TableInfo:
    columns = tuple(
        ColumnInfo(number, column, DataType(kind), semantic)
        for number, (column, (kind, semantic)) in enumerate(_KINDS.items())
    )
    return TableInfo(
        id=1, database="public", name=name, columns=columns, primary_key=("host", "dc"), engine=engine, next_column_id=7
    )


_TABLES = {("t",): _table("t"), ("public", "t"): _table("t"), ("x",): _table("x", engine="file")}


def decide(text: str, session: Session | None = None) -> Decision:
    own = session or Session()
    query = parse_query(text, tokenize(text, own.dialect), own.dialect)
    return choose(query, _TABLES.get(query.table) if isinstance(query, Select) else None, own)


SCAN, AGGREGATE, OVER, RANGE = (
    "it selects columns of one table",
    "it aggregates one table by tags and time",
    "it computes with aggregates of one table by tags and time",
    "it has ALIGN",
)

TABLE = [
    # Scans.
    ("SELECT * FROM t", "Scan", SCAN),
    ("SELECT host, f AS value FROM public.t WHERE host = 'a' AND ts >= 5 LIMIT 3", "Scan", SCAN),
    ("select host from t where f > 1.5 or n in (1, 2)", "Scan", SCAN),
    ("SELECT host FROM t WHERE NOT (f > 2 AND n <> 3)", "Scan", SCAN),
    ("SELECT host FROM t WHERE ts BETWEEN 20 AND 90 AND s IS NOT NULL AND 5 <= n", "Scan", SCAN),
    ("SELECT host FROM t WHERE host LIKE 'h%' AND host !~ '^h[12]$'", "Scan", SCAN),
    ("SELECT * FROM t ORDER BY ts DESC LIMIT 5", "Scan", SCAN),
    ("SELECT ts, ts AS again FROM t ORDER BY ts LIMIT 5", "Scan", SCAN),
    ('SELECT "host" FROM t', "Scan", SCAN),
    ("SELECT host FROM t ORDER BY ts", "Planned", "it sorts all rows"),
    ("SELECT host FROM t ORDER BY f LIMIT 2", "Planned", "it is ordered by something else than time"),
    ("SELECT host FROM t ORDER BY ts LIMIT 20000", "Planned", "it sorts more than 10000 rows"),
    ("SELECT host FROM t LIMIT 0", "Planned", "it has no rows"),
    ("SELECT host, host FROM t", "Planned", "two columns have one name"),
    ("SELECT host FROM t WHERE n = 1.5", "Planned", "a condition compares a column with a literal of another type"),
    ("SELECT host FROM t WHERE ts > 'yesterday'", "Planned", "literal of another type"),
    ("SELECT host FROM t WHERE n > 99999999999999999999", "Planned", "literal of another type"),
    ("SELECT host FROM t WHERE f = n", "Planned", "other than a plain literal"),
    ("SELECT host FROM t WHERE b", "Planned", "compares a column with literals"),
    ("SELECT nothing FROM t", "Planned", "there is no column nothing"),
    ("SELECT f + 1 FROM t", "Planned", "it computes with its columns or literals"),
    ("SELECT * FROM x", "Planned", "its table is none whose rows can be read directly"),
    ("SELECT * FROM ghost", "Planned", "it does not read exactly one table"),
    ("SELECT n AS ts FROM t ORDER BY ts LIMIT 2", "Planned", "ordered by what the answer calls something else"),
    # Aggregates.
    ("SELECT count(*) FROM t", "SeriesAggregate", AGGREGATE),
    ("SELECT count(1), max(f), min(ts), avg(n), sum(f) FROM t WHERE ts > 9", "SeriesAggregate", AGGREGATE),
    ("SELECT date_trunc('hour', ts) AS k, host, avg(f) FROM t GROUP BY 1, 2 ORDER BY 1", "SeriesAggregate", AGGREGATE),
    ("SELECT host h, max(n) m FROM t WHERE t.host <> 'a' GROUP BY h ORDER BY m LIMIT 3", "SeriesAggregate", AGGREGATE),
    ("SELECT date_bin(INTERVAL '30 minutes', ts) k, sum(n) FROM t GROUP BY k", "SeriesAggregate", AGGREGATE),
    ("SELECT host, last_value(f ORDER BY ts) FROM t GROUP BY host", "SeriesAggregate", AGGREGATE),
    ("SELECT host, dc FROM t GROUP BY host, dc", "SeriesAggregate", AGGREGATE),
    ("SELECT upper(host) AS u, max(f) FROM t WHERE host ILIKE 'H%' GROUP BY u", "SeriesAggregate", AGGREGATE),
    ("SELECT median(f), stddev(n), mean(f) FROM t", "SeriesAggregate", AGGREGATE),
    ("SELECT max(f) FROM t GROUP BY host ORDER BY max(f) DESC NULLS LAST OFFSET 2", "SeriesAggregate", AGGREGATE),
    ("SELECT max(f) FROM t GROUP BY n", "Planned", "it is grouped by n, which is no tag"),
    ("SELECT count(DISTINCT f) FROM t", "Planned", "it has DISTINCT"),
    ("SELECT max(f) FILTER (WHERE n > 1) FROM t", "Planned", "it has FILTER"),
    ("SELECT max(f) OVER () FROM t", "Planned", "it has OVER"),
    ("SELECT date_trunc('month', ts), max(f) FROM t GROUP BY 1", "Planned", "not have a fixed width"),
    ("SELECT date_trunc('hour', ts), date_trunc('day', ts), max(f) FROM t GROUP BY 1, 2", "Planned", "several buckets"),
    ("SELECT max(s) FROM t", "Planned", "max is of a column of type String"),
    ("SELECT max(host) FROM t", "Planned", "max is of the tag host"),
    ("SELECT last_value(f) FROM t", "Planned", "last_value has no order"),
    ("SELECT last_value(f ORDER BY n) FROM t", "Planned", "last_value is ordered by something else than time"),
    ("SELECT max(f) FROM t WHERE s ILIKE 'h%'", "Planned", "compares a column with literals"),
    ("SELECT max(f) FROM t WHERE upper(host) = s", "Planned", "it computes with its columns or literals"),
    ("SELECT max(f) FROM t WHERE n = 1.5", "Planned", "literal of another type"),
    ("SELECT date_bin(INTERVAL '1 hour', ts, now()), max(f) FROM t GROUP BY 1", "Planned", "no TIMESTAMP where one"),
    ("SELECT date_bin(INTERVAL '1 month', ts), max(f) FROM t GROUP BY 1", "Planned", "not have a fixed width"),
    ("SELECT max(t.f) FROM t JOIN t AS y ON t.ts = y.ts", "Planned", "it has JOIN"),
    ("SELECT approx_median(f) FROM t", "Planned", "approx_median is not an aggregate"),
    ("SELECT max(f) FROM x", "Planned", "its table is none whose rows lie by series"),
    ("SELECT max(f) FROM ghost", "Planned", "it does not read exactly one table"),
    ("SELECT max(f) FROM t GROUP BY host ORDER BY min(f)", "Over", OVER),
    ("SELECT max(ghost) FROM t", "Planned", "there is no column ghost"),
    ("SELECT max(f) FROM t GROUP BY 3", "Planned", "it refers to a column number that does not exist"),
    # Queries over aggregates.
    ("SELECT max(f) + 1 FROM t", "Over", OVER),
    ("SELECT host FROM t GROUP BY host HAVING max(f) > 9.5 ORDER BY host", "Over", OVER),
    ("SELECT host, round(avg(f) * 100) / 100 AS r FROM t WHERE n > 1 GROUP BY host LIMIT 3", "Over", OVER),
    ("SELECT upper(host), sum(n)::double / count(n) FROM t GROUP BY host", "Over", OVER),
    ("SELECT CASE WHEN max(n) > 38 THEN 'hi' ELSE 'lo' END AS x FROM t", "Over", OVER),
    ("SELECT host, max(f) FROM t GROUP BY host HAVING max(s) > 'a'", "Planned", "HAVING"),
    ("SELECT max(f) + n FROM t GROUP BY n", "Planned", "it is grouped by n, which is no tag"),
    # Range queries.
    ("SELECT ts, max(f) RANGE '1m' FROM t ALIGN '1m'", "Range", RANGE),
    ("SELECT * FROM (SELECT ts, max(f) RANGE '1m' FROM t ALIGN '1m' BY (host)) AS q", "Range", RANGE),
    ("WITH q AS (SELECT ts, sum(f) RANGE '1m' FROM t ALIGN '1m') SELECT * FROM q", "Range", RANGE),
    # What only a planner knows.
    ("SELECT 1", "Planned", "it has no FROM"),
    ("VALUES (1)", "Planned", "it is not a SELECT"),
    ("WITH q AS (SELECT 1) SELECT * FROM q", "Planned", "it is not a SELECT"),
    ("SELECT DISTINCT host FROM t", "Planned", "it has DISTINCT"),
    ("SELECT host FROM t UNION SELECT dc FROM t", "Planned", "it has UNION"),
    ("SELECT host FROM t, t AS y", "Planned", "it does not read exactly one table"),
    ("SELECT * FROM (SELECT host FROM t)", "Planned", "it has a second SELECT"),
    ("SELECT host FROM t WHERE host IN (SELECT dc FROM t)", "Planned", "it has a second SELECT"),
    ("SELECT count(*) FROM t WHERE host = (SELECT max(dc) FROM t)", "Planned", "it has a second SELECT"),
    ("SELECT host FROM t AS x", "Planned", "it does not read exactly one table"),
    ("SELECT max(f) FROM t GROUP", "Planned", "a clause has no BY"),
    ("SELECT FROM t", "Planned", "a clause is empty"),
    ("SELECT host, FROM t", "Planned", "a list has an empty item"),
    ("SELECT max(f FROM t", "Planned", "a parenthesis is not closed"),
    ("SELECT host FROM t LIMIT 1 WHERE n > 1", "Planned", "its clauses are in another order"),
    ("SELECT ghost AS g, max(f) FROM t GROUP BY g", "Planned", "it is grouped by ghost, which is no tag"),
]


@pytest.mark.parametrize(("text", "way", "reason"), TABLE)
def test_every_text_is_answered_in_one_way_for_one_reason(text: str, way: str, reason: str) -> None:
    decision = decide(text)
    assert (type(decision).__name__, decision.reason if way != "Planned" else "") == (
        way,
        reason if way != "Planned" else "",
    )
    assert reason in decision.reason


@pytest.mark.parametrize("text", [text for text, way, _ in TABLE if way in ("Scan", "SeriesAggregate", "Over")])
def test_with_fast_paths_off_everything_is_planned(text: str) -> None:
    session = Session()
    session.variables["series_aggregate"] = "off"
    assert decide(text, session) == Planned("series_aggregate is off in this session")


def test_dialects_read_quotes_in_their_own_way() -> None:
    text = 'SELECT count(*) FROM t WHERE host = "a"'
    assert type(decide(text, Session(channel=Channel.MYSQL))).__name__ == "SeriesAggregate"
    text = 'SELECT f FROM t WHERE host = "a"'
    assert type(decide(text, Session(channel=Channel.MYSQL))).__name__ == "Scan"
    assert decide(text, Session(channel=Channel.POSTGRES)).reason == (
        "a column is compared with something other than a plain literal"
    )


def test_a_zone_whose_days_differ_leaves_days_to_the_planner() -> None:
    text = "SELECT date_trunc('day', ts), max(f) FROM t GROUP BY 1"
    assert type(decide(text, Session(time_zone="+05:30"))).__name__ == "SeriesAggregate"
    assert "Europe/Berlin do not all have the same width" in decide(text, Session(time_zone="Europe/Berlin")).reason


def test_range_without_align_is_an_error_whatever_else_fits() -> None:
    with pytest.raises(InvalidSyntax, match="needs ALIGN"):
        decide("SELECT max(f) RANGE '1m' FROM t")
