"""Hostile statements, made at random from a grammar: short texts that ask for much.

Every family of statement multiplies something: plans, rows, values, slots, nesting. `hostile` returns one of at most
`CHARS_MAX` characters; the same generator of random numbers gives the same statements again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

CHARS_MAX = 4096

SETUP = (
    "CREATE TABLE IF NOT EXISTS t (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v BIGINT, s STRING)",
    "INSERT INTO t VALUES " + ", ".join(f"('k{n % 7}', {n * 1000}, {n}, '{{\"a\": [{n}]}}')" for n in range(200)),
    "CREATE OR REPLACE VIEW v0 AS SELECT k, ts, v FROM t",
    *(
        f"CREATE OR REPLACE VIEW v{n} AS "
        f"SELECT x.k, x.ts, x.v FROM v{n - 1} x JOIN v{n - 1} y ON x.k = y.k WHERE x.v > 0"
        for n in range(1, 9)
    ),
)

_STEPS = (
    "SELECT * FROM {0} UNION ALL SELECT * FROM {0}",
    "SELECT x.a FROM {0} AS x CROSS JOIN {0} AS y",
    "SELECT a + a AS a FROM {0} WHERE a <> 0",
    "SELECT a FROM {0} WHERE a IN (SELECT a FROM {0})",
    "SELECT (SELECT max(a) FROM {0}) AS a FROM {0}",
    "SELECT CASE WHEN a > 1 THEN a ELSE a + 1.5 END AS a FROM {0}",
    "SELECT DISTINCT a FROM {0} INTERSECT SELECT a FROM {0}",
    "SELECT sum(a) OVER (ORDER BY a) AS a FROM {0}",
)


def _number(chance: random.Random) -> int:
    return int(10 ** chance.uniform(0, 7))


def _series(chance: random.Random) -> str:
    count = _number(chance)
    return chance.choice((
        f"generate_series(1, {count})",
        f"range({count})",
        f"(SELECT unnest(range(1, {count})) AS value)",
        f"(SELECT value FROM generate_series(1, {count}) AS g (value) LIMIT {_number(chance)})",
        f"(SELECT v AS value FROM v{chance.randrange(9)})",
        "(VALUES " + ", ".join(f"({n})" for n in range(chance.randrange(1, 60))) + ")",
    ))  # fmt: skip


def doubling(chance: random.Random) -> str:
    bottom = chance.choice(
        ("SELECT 1 AS a", "SELECT v AS a FROM t", f"SELECT value AS a FROM {_series(chance)} AS b (value)")
    )
    parts = [f"c0 AS ({bottom})"]
    same = chance.choice(_STEPS)
    for number in range(1, chance.randrange(2, 40)):
        step = same if chance.random() < 0.7 else chance.choice(_STEPS)
        parts.append(f"c{number} AS ({step.format(f'c{number - 1}')})")
    return f"WITH {', '.join(parts)} SELECT {chance.choice(('*', 'count(*)', 'max(a)'))} FROM c{len(parts) - 1}"


def views(chance: random.Random) -> str:
    names = [f"v{chance.randrange(9)}" for _ in range(chance.randrange(1, 6))]
    joined = " JOIN ".join(f"{name} AS x{n}" + (f" ON x0.k = x{n}.k" if n else "") for n, name in enumerate(names))
    return f"SELECT count(*) FROM {joined} WHERE x0.v > {_number(chance)}"


def _text(chance: random.Random, depth: int) -> str:
    if depth <= 0 or chance.random() < 0.1:
        return chance.choice(("'x'", "s", "k", "'abcabc'", "cast(v AS STRING)"))
    inner = _text(chance, depth - 1)
    count = chance.choice((str(_number(chance)), f"v * {_number(chance)}"))
    return chance.choice((
        f"repeat({inner}, {count})",
        f"lpad({inner}, {count}, 'ab')",
        f"rpad({inner}, {count})",
        f"{inner} || {inner}" if len(inner) < 1000 else inner,
        f"concat({inner}, {_text(chance, depth - 2)})",
        f"replace({inner}, 'x', 'xxxxxxxxxx')",
        f"regexp_replace({inner}, '(x|a)+', '\\0\\0\\0\\0', 'g')",
        f"array_to_string(array_repeat({inner}, {count}), ',')",
        f"upper({inner})",
        f"space({count})",
    ))  # fmt: skip


def growing(chance: random.Random) -> str:
    text = f"SELECT {_text(chance, chance.randrange(1, 8))} AS a, v FROM t"
    for number in range(chance.randrange(0, 12)):
        item = chance.choice(("a || a", "concat(a, a, a)", "replace(a, left(a, 1), a)"))
        text = f"SELECT {item} AS a, v FROM ({text}) AS q{number}"
    return (
        f"SELECT {chance.choice(('max(length(a))', 'a', 'count(DISTINCT a)', 'string_agg(a, a)'))} FROM ({text}) AS z"
    )


def lists(chance: random.Random) -> str:
    call = f"range(1, {_number(chance)})"
    for _ in range(chance.randrange(0, 5)):
        call = chance.choice(
            (f"array_repeat({call}, {_number(chance)})", f"array_concat({call}, {call})", f"array_append({call}, 1)")
        )
        if len(call) > 1000:
            break
    items = ", ".join([f"array_length({call})"] * chance.randrange(1, 4))
    return f"SELECT {items} FROM {chance.choice(('t', _series(chance) + ' AS q', '(SELECT 1) AS q'))}"


def crossing(chance: random.Random) -> str:
    sources = [f"{_series(chance)} AS j{n} (value)" for n in range(chance.randrange(2, 6))]
    condition = chance.choice((
        "", " WHERE j0.value < j1.value", " WHERE j0.value % 1 = j1.value % 1", " WHERE j0.value = j1.value",
        " WHERE cast(j0.value AS STRING) LIKE cast(j1.value AS STRING) || '%'",
    ))  # fmt: skip
    what = chance.choice(
        ("count(*)", "sum(j0.value * j1.value)", "*", "j0.value", "count(DISTINCT j0.value + j1.value)")
    )
    tail = chance.choice(("", "", " ORDER BY 1", " LIMIT 5", " ORDER BY 1 LIMIT 5"))
    return f"SELECT {what} FROM {', '.join(sources)}{condition}{tail}"


def recursive(chance: random.Random) -> str:
    step = chance.choice((
        "SELECT i + 1 FROM r", "SELECT i + 1 FROM r UNION ALL SELECT i FROM r", "SELECT a.i + b.i FROM r a, r b",
        "SELECT i * 2 FROM r WHERE i < 1e9",
    ))  # fmt: skip
    what = chance.choice(("sum(i)", "count(*)", "*"))
    return f"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL {step}) SELECT {what} FROM r"


def nested(chance: random.Random) -> str:
    depth = chance.randrange(1, 120)
    opening, closing = chance.choice((
        ("(", ")"), ("abs(", ")"), ("CASE WHEN v > 1 THEN ", " END"), ("(SELECT ", ")"), ("- ", ""), ("NOT ", ""),
        ("coalesce(v, ", ")"),
    ))  # fmt: skip
    return f"SELECT {opening * depth}v{closing * depth} FROM t"


def chains(chance: random.Random) -> str:
    word, item = chance.choice((
        (" OR ", "v = {}"), (" AND ", "v <> {}"), (" OR ", "k LIKE '%{}%'"), (" OR ", "s ~ '({}|a)+'"), (" + ", "v"),
        (" || ", "s"),
        (" OR ", "ts = '2024-01-01 00:00:{}'"),
    ))  # fmt: skip
    condition = word.join(item.format(n) for n in range(chance.randrange(1, 300)))
    return chance.choice(
        (
            f"SELECT v FROM t WHERE {condition}",
            f"SELECT {condition} FROM t",
            f"DELETE FROM t WHERE v < 0 AND ({condition})",
        )
    )


def cases(chance: random.Random) -> str:
    whens = " ".join(f"WHEN v = {n} THEN {n}{chance.choice(('', '.5'))}" for n in range(chance.randrange(1, 150)))
    return f"SELECT CASE {whens} END FROM {chance.choice(('t', 'v3', 'v8'))}"


def unions(chance: random.Random) -> str:
    one = chance.choice(
        ("SELECT v FROM t", "SELECT v FROM v2", "SELECT 1", "SELECT value FROM generate_series(1, 100000)")
    )
    return f" {chance.choice(('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT'))} ".join([one] * chance.randrange(2, 120))


def paths(chance: random.Random) -> str:
    path = "$" + "".join(chance.choice((".a", "[*]", "[0]", "..a", ".*")) for _ in range(chance.randrange(1, 60)))
    json = "[" * chance.randrange(1, 300) + "1"
    return chance.choice((
        f"SELECT json_path_exists(parse_json(s), '{path}') FROM t",
        f"SELECT parse_json('{json}{']' * json.count('[')}')",
        f"SELECT json_get_string(parse_json(s), '{path}') FROM t, {_series(chance)} AS q (value)",
    ))  # fmt: skip


def patterns(chance: random.Random) -> str:
    pattern = "a"
    for _ in range(chance.randrange(1, 12)):
        pattern = chance.choice(
            (f"({pattern})*", f"({pattern}|{pattern})", f"({pattern}){{{chance.randrange(1, 200)}}}", f"({pattern})+b?")
        )
    return chance.choice((
        f"SELECT count(*) FROM t WHERE k ~ '{pattern}'",
        f"SELECT regexp_match(repeat('a', {_number(chance)}), '{pattern}')",
        f"SELECT count(*) FROM {_series(chance)} AS q (value) WHERE repeat('a', 100) ~ '{pattern}'",
    ))[:CHARS_MAX]  # fmt: skip


def ranges(chance: random.Random) -> str:
    unit = chance.choice(("ms", "s", "m", "d", "y"))
    fill = chance.choice(("", " FILL 0", " FILL PREV", " FILL LINEAR"))
    align = f"{_number(chance)}{chance.choice(('ms', 's'))}"
    return f"SELECT ts, k, max(v) RANGE '{_number(chance)}{unit}'{fill} FROM t ALIGN '{align}' BY (k)"


def tql(chance: random.Random) -> str:
    inner = "t"
    for _ in range(chance.randrange(0, 8)):
        inner = chance.choice(
            (
                f"sum({inner})",
                f"({inner} + {inner})",
                f"rate({inner}[{chance.randrange(1, 99)}d])",
                f"abs({inner})",
                f"{inner} or {inner}",
            )
        )
    text = f"TQL EVAL (0, {_number(chance)}, '{chance.choice(('1ms', '1s', '1h'))}') {inner}"
    return text if chance.random() < 0.6 else f"WITH q AS ({text}) SELECT count(*) FROM q, q AS r, q AS s"


FAMILIES: tuple[Callable[[random.Random], str], ...] = (
    doubling, views, growing, lists, crossing, recursive, nested, chains, cases, unions, paths, patterns, ranges, tql,
)  # fmt: skip


def hostile(chance: random.Random) -> str:
    """Return a statement that asks for much."""
    while True:
        text = chance.choice(FAMILIES)(chance)
        if chance.random() < 0.1 and not text.startswith(("TQL", "DELETE")):
            text = f"EXPLAIN {chance.choice(('', 'ANALYZE '))}{text}"
        if len(text) <= CHARS_MAX:
            return text
