"""Random queries that mean the same here and in DuckDB.

A query is a text with `{t}` for the table. Where the dialects spell a thing differently, it is written as
`[[ours|||theirs]]`. What the two define differently is left out: the least of values with NaN, rounding of casts to
integers, division of integers, correlation of one row, a local time that occurs twice (for DuckDB the later one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

_SPELLINGS = re.compile(r"\[\[(.*?)\|\|\|(.*?)\]\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Query:
    """A query and whether its rows come in one order only."""

    text: str
    is_ordered: bool = False

    @property
    def ours(self) -> str:
        return _SPELLINGS.sub(r"\1", self.text)

    @property
    def theirs(self) -> str:
        return _SPELLINGS.sub(r"\2", self.text)


def _both(ours: str, theirs: str) -> str:
    return f"[[{ours}|||{theirs}]]"


_UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")
_MINUTES = "extract(minute FROM ts) * 60000000"
_WITHIN = {"minute": "extract(microseconds FROM ts)", "hour": f"{_MINUTES} + extract(microseconds FROM ts)"}
"""The microseconds since the beginning of a unit."""
_PARTS = ("year", "month", "day", "hour", "minute", "dow", "doy", "week", "quarter")


def _truncated(unit: str) -> str:
    """The beginning of a unit; DuckDB moves short ones to the second of two equal local times."""
    ours = f"date_trunc('{unit}', ts)"
    return _both(ours, f"(ts - to_microseconds({_WITHIN[unit]}))") if unit in _WITHIN else ours


class Writer:
    """Writes random queries over the columns of one table."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._depth = 0

    def query(self) -> Query:
        write = self._random.choice(
            (
                self._plain,
                self._plain,
                self._grouped,
                self._grouped,
                self._grouped,
                self._buckets,
                self._buckets,
                self._distinct,
                self._joined,
                self._windows,
                self._set_operation,
                self._nested,
                self._subquery,
            )
        )
        return write()

    # Expressions

    def number(self) -> str:
        pick = self._random.choice
        if self._depth > 2 or self._random.random() < 0.4:
            return pick(("f", "i", "f", "i", "1", "2.5", "-3", "0"))
        self._depth += 1
        try:
            return pick(
                (
                    lambda: f"({self.number()} {pick(('+', '-', '*'))} {self.number()})",
                    lambda: f"abs({self.number()})",
                    lambda: f"coalesce({self.number()}, {self.number()})",
                    lambda: f"nullif({self.number()}, {self.number()})",
                    lambda: f"CASE WHEN {self.condition()} THEN {self.number()} ELSE {self.number()} END",
                    lambda: f"({self.number()} / 4.0)",
                    lambda: f"(i % {pick(('3', '7', '-5'))})",
                    lambda: f"floor({self.number()})",
                    lambda: f"length({self.text()})",
                    lambda: f"greatest({self.number()}, {self.number()})",
                    lambda: f"extract({pick(_PARTS)} FROM ts)",
                    lambda: f"date_part('{pick(_PARTS)}', {self.time()})",
                    lambda: f"sign({self.number()})",
                )
            )()
        finally:
            self._depth -= 1

    def text(self) -> str:
        pick = self._random.choice
        if self._depth > 2 or self._random.random() < 0.4:
            return pick(("host", "dc", "s", "'p'", "''"))
        self._depth += 1
        try:
            return pick(
                (
                    lambda: f"upper({self.text()})",
                    lambda: f"lower({self.text()})",
                    lambda: f"({self.text()} || {self.text()})",
                    lambda: f"substr({self.text()}, {pick(('1', '2', '3'))}, 2)",
                    lambda: f"replace({self.text()}, 'p', 'zz')",
                    lambda: f"coalesce({self.text()}, 'none')",
                    lambda: f"trim({self.text()})",
                    lambda: f"CASE WHEN {self.condition()} THEN {self.text()} END",
                    lambda: "CAST(i AS VARCHAR)",
                    lambda: "CAST(b AS VARCHAR)",
                    lambda: "CAST(o AS VARCHAR)",
                    lambda: f"left({self.text()}, 2)",
                    lambda: f"repeat({self.text()}, 2)",
                    lambda: f"reverse({self.text()})",
                    lambda: "CAST(CAST(ts AS DATE) AS VARCHAR)",
                )
            )()
        finally:
            self._depth -= 1

    def time(self) -> str:
        pick = self._random.choice
        return pick(
            (
                "ts",
                "ts",
                _truncated(pick(_UNITS)),
                f"(ts + INTERVAL '{pick(('1 hour', '90 minutes', '30 seconds'))}')",
                f"(ts - INTERVAL '{pick(('1 hour', '45 minutes'))}')",
            )
        )

    def condition(self) -> str:
        pick = self._random.choice
        self._depth += 1
        try:
            if self._depth > 3:
                return pick(("o", "i > 0", "host = 'a'", "f IS NULL"))
            return pick(
                (
                    lambda: f"{self.number()} {self._order()} {self.number()}",
                    lambda: f"{pick(('f', 'i', 'g', 'b'))} {self._order()} {pick(('0', '1.5', '-7', '1000000'))}",
                    lambda: f"b {self._order()} {pick(('9007199254740993', '-1152921504606846976', '0'))}",
                    lambda: f"host {pick(('=', '<>', '<', '>='))} '{pick(('a', 'b', 'Ä b', 'nobody'))}'",
                    lambda: f"host IN ('a', 'c', '{pick(('x', 'Ä b'))}')",
                    lambda: f"{self.text()} {self._order()} {self.text()}",
                    lambda: f"{pick(('host', 'dc', 'f', 'i', 'g', 's', 'o'))} IS {pick(('', 'NOT '))}NULL",
                    lambda: f"s {pick(('', 'NOT '))}LIKE '{pick(('p%', '%q', '_', '%%', 'é%'))}'",
                    lambda: f"({self.condition()} AND {self.condition()})",
                    lambda: f"({self.condition()} OR {self.condition()})",
                    lambda: f"NOT ({self.condition()})",
                    lambda: f"i {pick(('', 'NOT '))}BETWEEN -20 AND {pick(('10', '30'))}",
                    lambda: f"i {pick(('', 'NOT '))}IN (1, 2, 3, {pick(('NULL', '-5', '40'))})",
                    lambda: f"ts {self._order()} {self.moment()}",
                    lambda: f"(ts >= {self.moment()} AND ts < {self.moment()})",
                    lambda: f"extract(hour FROM ts) {self._order()} {self._random.randint(0, 23)}",
                    lambda: f"f IS {pick(('', 'NOT '))}DISTINCT FROM i",
                    lambda: "o",
                    lambda: "NOT o",
                )
            )()
        finally:
            self._depth -= 1

    def _order(self) -> str:
        return self._random.choice(("=", "<>", "<", "<=", ">", ">="))

    def moment(self) -> str:
        """A time in the zone of the session, perhaps a skipped one, never one that occurs twice."""
        day = self._random.choice(("2024-03-31", "2024-10-27", "2024-01-01", "1970-01-01", "2024-10-26"))
        early = "03:30:00" if day == "2024-10-27" else "02:30:00"
        return f"'{day} {self._random.choice(('00:00:00', early, '12:00:00', '23:59:59.999'))}'"

    def where(self) -> str:
        found = [self.condition() for _ in range(self._random.choice((0, 1, 1, 2, 3)))]
        return f" WHERE {' AND '.join(found)}" if found else ""

    # Aggregates

    def aggregate(self) -> str:
        pick = self._random.choice
        return pick(
            (
                lambda: "count(*)",
                lambda: f"count({pick(('f', 'g', 's', 'host', self.number()))})",
                lambda: f"{pick(('sum', 'avg', 'min', 'max'))}({pick(('f', 'i', self.number()))})",
                lambda: f"{pick(('min', 'max'))}({pick(('b', 's', 'host', 'ts', 'o'))})",
                lambda: f"count(DISTINCT {pick(('host', 'i', 's', 'g', 'o'))})",
                lambda: f"{pick(('stddev_samp', 'stddev_pop', 'var_pop', 'var_samp'))}({pick(('f', 'i'))})",
                lambda: "median(f)",
                lambda: _both("percentile_cont(0.3) WITHIN GROUP (ORDER BY f)", "quantile_cont(f, 0.3)"),
                lambda: f"bool_{pick(('and', 'or'))}(o)",
                lambda: f"sum(i) FILTER (WHERE {self.condition()})",
                lambda: f"sum(CASE WHEN {self.condition()} THEN 1 ELSE 0 END)",
                lambda: "max(f) - min(f)",
                lambda: "string_agg(s, ',' ORDER BY s)",
                lambda: "bit_xor(i)",
            )
        )()

    # Queries

    def _plain(self) -> Query:
        items = [self._random.choice((self.number, self.text, self.time, self.condition))() for _ in range(3)]
        listed = ", ".join(f"{item} AS c{at}" for at, item in enumerate(items))
        return Query(f"SELECT {listed}, ts, host FROM {{t}}{self.where()}")

    def _grouped(self) -> Query:
        keys = self._random.sample(("host", "dc", "s", "o", "upper(host)", "i % 3", "f > 0", "dc IS NULL"), 2)
        keys = keys[: self._random.randint(0, 2)]
        return self._aggregated(keys)

    def _buckets(self) -> Query:
        bucket = self._random.choice(
            (
                *(_truncated(unit) for unit in _UNITS),
                _both(
                    "date_bin(INTERVAL '40 minutes', ts)",
                    "time_bucket(INTERVAL '40 minutes', ts, TIMESTAMPTZ '1970-01-01 00:00:00+00')",
                ),
                "CAST(ts AS DATE)",
                "extract(month FROM ts)",
                "extract(hour FROM ts)",
            )
        )
        return self._aggregated([bucket, *self._random.sample(("host", "dc"), self._random.randint(0, 2))])

    def _aggregated(self, keys: list[str]) -> Query:
        aggregates = [self.aggregate() for _ in range(self._random.randint(1, 3))]
        items = [*(f"{key} AS k{at}" for at, key in enumerate(keys))]
        items += [f"{each} AS a{at}" for at, each in enumerate(aggregates)]
        text = f"SELECT {', '.join(items)} FROM {{t}}{self.where()}"
        if not keys:
            return Query(text)
        text += f" GROUP BY {', '.join(keys)}"
        if self._random.random() < 0.3:
            text += self._random.choice((" HAVING count(*) > 1", " HAVING max(f) > 0", " HAVING sum(i) IS NOT NULL"))
        if self._random.random() < 0.5:
            return Query(text)
        ways = ("", " DESC")
        order = ", ".join(f"k{at}{self._random.choice(ways)} NULLS LAST" for at in range(len(keys)))
        limit = self._random.choice(("", " LIMIT 3", " LIMIT 2 OFFSET 1", " OFFSET 2"))
        return Query(f"{text} ORDER BY {order}{limit}", is_ordered=True)

    def _distinct(self) -> Query:
        column = self._random.choice(("dc", "o", "i", "g"))
        return Query(f"SELECT DISTINCT {self.text()} AS a, {column} AS b FROM {{t}}{self.where()}")

    def _joined(self) -> Query:
        kind = self._random.choice(("JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"))
        on = self._random.choice(
            ("l.host = r.host", "l.i = r.i", "l.host = r.host AND l.ts = r.ts", "l.s = r.s AND l.f > r.f")
        )
        some = self.where()
        return Query(
            f"SELECT count(*) AS n, sum(l.i) AS x, sum(r.i) AS y, min(l.f) AS z, max(r.s) AS w"
            f" FROM (SELECT * FROM {{t}}{some}) AS l {kind} {{t}} AS r ON {on}"
        )

    def _windows(self) -> Query:
        call = self._random.choice(
            (
                "row_number() OVER w",
                "rank() OVER w",
                "lag(f) OVER w",
                "lead(i, 2) OVER w",
                "sum(i) OVER w",
                "first_value(s) OVER w",
                "count(f) OVER (w ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
                "max(i) OVER (PARTITION BY host)",
            )
        )
        by = (
            "PARTITION BY host, dc, o ORDER BY ts, f NULLS LAST, i NULLS LAST, s NULLS LAST, b NULLS LAST, g NULLS LAST"
        )
        call = call.replace("OVER w", f"OVER ({by})").replace("(w ", f"({by} ")
        return Query(f"SELECT host, ts, {call} AS c FROM {{t}}{self.where()}")

    def _set_operation(self) -> Query:
        kind = self._random.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
        columns = self._random.choice(("host, i", "dc, s", "o, f", "host, ts"))
        return Query(f"SELECT {columns} FROM {{t}}{self.where()} {kind} SELECT {columns} FROM {{t}}{self.where()}")

    def _nested(self) -> Query:
        return Query(
            f"WITH x AS (SELECT host, dc, date_trunc('day', ts) AS d, {self.number()} AS v, i FROM {{t}}{self.where()})"
            f" SELECT d, count(*) AS n, sum(v) AS s, max(i) AS m FROM x GROUP BY d"
        )

    def _subquery(self) -> Query:
        where = self._random.choice(
            (
                "i > (SELECT avg(i) FROM {t})",
                "host IN (SELECT host FROM {t} WHERE o)",
                "EXISTS (SELECT 1 FROM {t} AS u WHERE u.host = {t}.host AND u.i > {t}.i)",
                "NOT EXISTS (SELECT 1 FROM {t} AS u WHERE u.dc = {t}.dc AND u.f < {t}.f)",
                "ts = (SELECT max(ts) FROM {t})",
            )
        )
        return Query(f"SELECT host, ts, i, f FROM {{t}} WHERE {where}")
