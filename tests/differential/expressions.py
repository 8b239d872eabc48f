"""Random PromQL over the names and labels of `samples`.

An expression knows whether its values are computed exactly. Comparisons, rounding and orders look at exact values only,
because one last bit would change whole answers there. Windows and subqueries are three milliseconds longer than round,
so that no evaluation and no sample lies on their edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.differential.samples import INSTANCES, JOBS, SLOT_S, SLOTS, START_S

DEPTH_MAX = 4

_EXACT_OVER_TIME = (
    "sum_over_time",
    "min_over_time",
    "max_over_time",
    "count_over_time",
    "last_over_time",
    "present_over_time",
    "absent_over_time",
    "changes",
    "resets",
    "idelta",
)
_OF_COUNTERS = ("rate", "increase")
_OVER_TIME = (
    "delta",
    "irate",
    "deriv",
    "avg_over_time",
    "stddev_over_time",
    "stdvar_over_time",
)
_MATH = ("exp", "ln", "log2", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
_MORE_MATH = ("asinh", "acosh", "atanh", "deg", "rad")
_DATES = ("hour", "minute", "month", "year", "day_of_week", "day_of_month", "day_of_year", "days_in_month")
_LABELS = ("job", "instance", "zone", "version", "le")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_NUMBERS = ("0", "1", "2", "-1", "0.5", "3", "10", "1e3", "Inf", "-Inf", "NaN", "0x1f", "1000")


@dataclass(frozen=True)
class Text:
    """An expression, whether its values are exact."""

    text: str
    is_exact: bool = True

    def __str__(self) -> str:
        return self.text


def _one(random: Random, *choices: str) -> str:
    return random.choice(choices)


def _chance(random: Random, percent: int) -> bool:
    return random.randrange(100) < percent


def _labels(random: Random) -> str:
    return ", ".join(random.choices(_LABELS[:3] if _chance(random, 80) else _LABELS, k=random.randint(0, 3)))


def _matchers(random: Random) -> list[str]:
    choices = [
        *(f'job="{job}"' for job in JOBS),
        f'instance!="{INSTANCES[0]}"',
        'job=~"a.*|web"',
        'job!~"d."',
        'zone=""',
        'zone!=""',
        'zone=~".+"',
        'zone=~"(?i:EU)|"',
        'nothing=""',
        'nothing="x"',
        'instance=~"[ab]:\\\\d"',
        'job=~"api"',
        'instance=~"a:1|b:2|c:3"',
    ]
    return random.choices(choices, k=random.randint(1, 2)) if _chance(random, 50) else []


def _shift(random: Random) -> str:
    parts = []
    if _chance(random, 15):
        parts.append(f"offset {_one(random, '30s', '5m', '-1m', '1m30s', '1h')}")
    if _chance(random, 12):
        at = START_S + random.randint(0, SLOTS * SLOT_S)
        parts.append(f"@ {_one(random, f'{at}.011', 'start()', 'end()')}")
    return " ".join(random.sample(parts, len(parts)))


def _selector(random: Random, range_text: str = "") -> str:
    matchers = _matchers(random)
    if not range_text and _chance(random, 4):
        head, matchers = "", ['__name__=~"gauge|load"', *matchers]
    else:
        head = _one(
            random, "gauge", "gauge", "gauge", "hits_total", "hits_total", "load", "build_info", "latency_bucket"
        )
        if _chance(random, 2):
            head = "nothing"
    braces = "{" + ", ".join(matchers) + "}" if matchers or _chance(random, 5) else ""
    return f"{head}{braces}{range_text} {_shift(random)}".strip()


def _range(random: Random, depth: int) -> Text:
    """A range vector."""
    length = _one(random, "30s3ms", "1m3ms", "2m3ms", "5m3ms", "10m3ms", "30m3ms")
    if depth <= 0 or _chance(random, 75):
        return Text(_selector(random, f"[{length}]"))
    inner = vector(random, depth - 1)
    step = _one(random, "", "10s", "15s", "1m", "37s")
    return Text(f"({inner})[{length}:{step}] {_shift(random)}".strip(), inner.is_exact)


def _range_call(random: Random, depth: int) -> Text:
    inner = _range(random, depth)
    kind = random.randint(0, 11)
    if kind < 5:
        name = _one(random, *_EXACT_OVER_TIME)
        if name in ("changes", "resets") and not inner.is_exact:
            name = "count_over_time"
        return Text(f"{name}({inner})", inner.is_exact)
    if kind < 9:
        is_counter = str(inner).startswith(("hits_total", "latency_bucket"))
        names = _OF_COUNTERS if is_counter and _chance(random, 60) else _OVER_TIME
        return Text(f"{_one(random, *names)}({inner})", is_exact=False)
    if kind == 9:
        quantile = scalar(random, 0 if "@" in str(inner) else depth - 1)
        return Text(f"quantile_over_time({quantile}, {inner})", is_exact=False)
    if kind == 10 and "@" not in str(inner):
        return Text(f"predict_linear({inner}, {_one(random, '60', '-30', '3600')})", is_exact=False)
    return Text(f"holt_winters({inner}, {_one(random, '0.5', '0.1')}, {_one(random, '0.3', '0.9')})", is_exact=False)


def scalar(random: Random, depth: int) -> Text:
    """A number."""
    kind = random.randint(0, 9)
    if depth <= 0 or kind < 6:
        return Text(_one(random, *_NUMBERS))
    if kind == 6:
        return Text(_one(random, "time()", "pi()"), is_exact=False)
    if kind == 7:
        inner = vector(random, depth - 1)
        return Text(f"scalar({inner})", inner.is_exact)
    left, right = scalar(random, depth - 1), scalar(random, depth - 1)
    if kind == 8 and left.is_exact and right.is_exact:
        return Text(f"({left} {_one(random, *_COMPARISONS)} bool {right})")
    return Text(f"({left} {_one(random, '+', '-', '*', '/', '%', '^', 'atan2')} {right})", is_exact=False)


def _aggregate(random: Random, depth: int) -> Text:
    inner = vector(random, depth - 1)
    grouping = f" {_one(random, 'by', 'without')} ({_labels(random)})" if _chance(random, 70) else ""
    name = _one(random, "sum", "sum", "min", "max", "count", "group", "avg", "stddev", "stdvar", "topk", "quantile")
    if _chance(random, 15):
        name = _one(random, "bottomk", "count_values")
    if name in ("topk", "bottomk", "count_values") and not inner.is_exact:
        name = "sum"
    if name.startswith("std") and "time" in str(inner):
        # The variance of times is mostly lost digits.
        name = "min"
    exact = inner.is_exact and name not in ("avg", "stddev", "stdvar", "quantile")
    arguments = str(inner)
    if name in ("topk", "bottomk"):
        count = _one(random, "0", "1", "2", "3", "-1", "100")
        if count in "123":
            # Which of several equal series is taken is not defined, but what all that are taken have is.
            return Text(f"{_one(random, 'sum', 'min', 'max', 'count')}({name}{grouping} ({count}, {inner}))")
        arguments = f"{count}, {inner}"
    elif name == "quantile":
        arguments = f"{scalar(random, depth - 1)}, {inner}"
    elif name == "count_values":
        # The older version forgets some labels of `by` after the first step.
        grouping = grouping.replace(" by ", " without ")
        arguments = f'"{_one(random, "value", "job", "zone")}", {inner}'
    if _chance(random, 50):
        return Text(f"{name}{grouping} ({arguments})", exact)
    return Text(f"{name}({arguments}){grouping}", exact)


def _matching(random: Random, *, is_set: bool) -> str:
    if _chance(random, 25):
        return ""
    on = f"{_one(random, 'on', 'ignoring')} ({_labels(random)})"
    if is_set or _chance(random, 50):
        return on
    return f"{on} {_one(random, 'group_left', 'group_right')} ({_one(random, '', '', 'zone', 'version', 'job')})"


def _binary(random: Random, depth: int) -> Text:
    left, right = vector(random, depth - 1), vector(random, depth - 1)
    exact = left.is_exact and right.is_exact
    kind = random.randint(0, 9)
    if kind < 3:
        operator = _one(random, "and", "or", "unless")
        return Text(f"({left}) {operator} {_matching(random, is_set=True)} ({right})", exact)
    if kind < 6 and exact:
        operator = f"{_one(random, *_COMPARISONS)}{_one(random, '', '', ' bool')}"
        return Text(f"({left}) {operator} {_matching(random, is_set=False)} ({right})", exact)
    operator = (
        _one(random, "+", "-", "*", "/", "%", "^", "atan2") if exact else _one(random, "+", "-", "*", "/", "atan2")
    )
    exact = exact and operator in ("+", "-", "*")
    if operator == "atan2":
        left, right = Text(f"-({left})"), Text(f"-({right})")
    return Text(f"({left}) {operator} {_matching(random, is_set=False)} ({right})", exact)


def _with_number(random: Random, depth: int) -> Text:
    inner, number = vector(random, depth - 1), scalar(random, depth - 1)
    exact = inner.is_exact and number.is_exact
    operator = _one(random, "+", "-", "*", "/", "%", "^", "atan2") if exact else _one(random, "+", "-", "*", "/")
    if exact and _chance(random, 40):
        operator = f"{_one(random, *_COMPARISONS)}{_one(random, '', '', ' bool')}"
    if operator == "atan2":
        inner = Text(f"-({inner})")
    sides = (f"({inner})", str(number)) if _chance(random, 60) else (str(number), f"({inner})")
    return Text(f"{sides[0]} {operator} {sides[1]}", exact and operator not in ("/", "%", "^", "atan2"))


def _call(random: Random, depth: int) -> Text:
    inner = vector(random, depth - 1)
    kind = random.randint(0, 13)
    if kind == 0:
        return Text(f"{_one(random, *_MATH, *_MORE_MATH)}({inner})", is_exact=False)
    if kind == 1 and inner.is_exact:
        return Text(f"{_one(random, 'floor', 'ceil', 'sgn', 'round')}({inner})")
    if kind == 2:
        return Text(f"{_one(random, 'abs', '-', '+')}({inner})", inner.is_exact)
    if kind == 3 and inner.is_exact:
        number = scalar(random, depth - 1)
        if number.is_exact:
            return Text(f"{_one(random, 'clamp_min', 'clamp_max')}({inner}, {number})")
        return Text(f"clamp({inner}, -2, 3)")
    if kind == 4:
        return Text(f"absent({inner})")
    if kind == 5:
        return Text(f"timestamp({inner})", is_exact=False)
    if kind == 6:
        return Text(f"vector({scalar(random, depth - 1)})", is_exact=False)
    if kind == 7 and inner.is_exact:
        return Text(f"{_one(random, *_DATES)}(clamp({inner}, -1000, 1000) * 100000 == {inner} * 100000)")
    if kind == 8:
        return Text(f"{_one(random, *_DATES)}()")
    if kind == 9:
        return _label_call(random, inner)
    if kind == 10 and inner.is_exact:
        return Text(f"{_one(random, 'sort', 'sort_desc')}({inner})")
    if kind == 11:
        return Text(_histogram(random, depth), is_exact=False)
    if kind == 12 and inner.is_exact:
        return Text(f"round({inner}, {_one(random, '0.5', '3', '10')})", is_exact=False)
    return Text(f"absent_over_time({_range(random, depth - 1)})")


def _histogram(random: Random, depth: int) -> str:
    quantile = scalar(random, depth - 1)
    window = _one(random, "1m3ms", "5m3ms")
    inner = _one(
        random,
        "latency_bucket",
        f"rate(latency_bucket[{window}])",
        f"sum by (le, job) (increase(latency_bucket[{window}]))",
        f"sum by (le) (rate(latency_bucket[{window}]))",
        'latency_bucket{le!="+Inf"}',
        "gauge",
    )
    return f"histogram_quantile({quantile}, {inner})"


def _label_call(random: Random, inner: Text) -> Text:
    if _chance(random, 40):
        sources = ", ".join(f'"{label}"' for label in random.choices(_LABELS, k=random.randint(0, 3)))
        target = _one(random, "zone", "new", "job")
        return Text(
            f'label_join({inner}, "{target}", "{_one(random, "-", "")}"{", " if sources else ""}{sources})',
            inner.is_exact,
        )
    pattern, template = random.choice(
        (
            ("(.*)", "$1"),
            ("(.).*", "x$1"),
            ("(?P<first>.)(.*)", "${2}-${first}"),
            ("a.*", "$0"),
            (".*", ""),
            ("nothing", "x"),
            ("", "empty"),
            ("(.*):(.*)", "$2$$$1"),
        )
    )
    target, source = _one(random, "zone", "new", "job", "instance"), _one(random, *_LABELS)
    return Text(f'label_replace({inner}, "{target}", "{template}", "{source}", "{pattern}")', inner.is_exact)


def vector(random: Random, depth: int) -> Text:
    """An instant vector."""
    if depth <= 0:
        return Text(_selector(random))
    kind = random.randint(0, 19)
    if kind < 3:
        return Text(_selector(random))
    if kind < 7:
        return _range_call(random, depth)
    if kind < 11:
        return _aggregate(random, depth)
    if kind < 15:
        return _binary(random, depth)
    if kind < 17:
        return _with_number(random, depth)
    return _call(random, depth)


def expression(random: Random) -> str:
    """Return a query that has a value at each step."""
    depth = random.randint(1, DEPTH_MAX)
    return str(vector(random, depth) if _chance(random, 95) else scalar(random, depth))


@dataclass(frozen=True)
class Times:
    """When a query is evaluated, in milliseconds; without a step, once."""

    start_ms: int
    end_ms: int
    step_ms: int


def times(random: Random) -> Times:
    """Return times in one of the slots, most of them where there are samples."""
    slot, second = random.randint(0, SLOTS - 1), random.randint(0, SLOT_S - 1)
    if _chance(random, 90):
        second = 100 + second // 2
    start = (START_S + slot * SLOT_S + second) * 1000 + 7
    if _chance(random, 40):
        return Times(start, start, 0)
    step = random.choice((5_000, 15_000, 60_000, 137_000))
    return Times(start, start + step * random.randint(0, 15), step)
