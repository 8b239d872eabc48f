"""Names of result columns: rewritten calls in them put back as the user wrote them.

The query engine names a column after the expression it planned. `visible_header` finds the marks that rewritten calls
leave there, see `tsdb.sql.function_names`, from the right to the left: what stands inside a call begins behind it.
"""

from __future__ import annotations

import itertools
import re

from tsdb.sql.aggregate_calls import AGGREGATES, LEADING, PERCENTILES
from tsdb.sql.function_names import INNER_NAMES

_MARK = re.compile(r"CASE WHEN (if|clamp|clamp_min|clamp_max)__test\(|\b([a-z]\w*)__(\w+)\(|\bcoalesce\(")
_SHIFTS = {"left": "<<", "right": ">>"}
_OPERATOR_NAMES = {"%": "mod", "+": "date_add", "-": "date_sub"}
_CALENDAR = re.compile(
    r"(zone__(?:shift|move|plus|minus)|date_add__zone|date_sub__zone|date_trunc__back|date_bin__back)\("
)
_SQUARE = re.compile(r"\[[^\[\]]*\]")
_WORD = re.compile(r"\b(CASE|WHEN|THEN|ELSE|END)\b")


def visible_header(header: str) -> str:
    """Return the name of a result column with every rewritten call as the user wrote it."""
    if "__" not in header and "coalesce(" not in header:
        return header
    # From the right: what stands inside a call begins behind it and is put back first.
    for match in reversed(list(_MARK.finditer(header))):
        header = header[: match.start()] + _restore(header[match.start() :], match)
    return header


def _restore(text: str, match: re.Match[str]) -> str:
    """Put back the call whose mark begins the text."""
    opening = match.end() - match.start() - 1
    closing = _closing(text, opening)
    if closing is None:
        return text
    arguments, rest = _split(text[opening + 1 : closing]), text[closing + 1 :]
    if match[1]:
        return _restore_case(match[1], arguments, rest) or text
    if match[2] and match[3] == "list" and match[2] in AGGREGATES:
        return (_restore_list(match[2], text[opening + 1 : closing]) or text[: closing + 1]) + rest
    if match[2] == "zone" and (match[3] == "text" or match[3].startswith("cast_")):
        return arguments[1 if match[3] == "text" else 0] + rest
    if match[2] == "shift" and match[3] in _SHIFTS and len(arguments) == 2:
        return f"{arguments[0]} {_SHIFTS[match[3]]} {arguments[1]}{rest}"
    if match[2]:
        name = f"{match[2]}__{match[3]}"
        return f"{match[2]}({','.join(_written(name, arguments))}){rest}" if name in INNER_NAMES else text
    if rest.startswith(" IS NULL") and len(arguments) == 1:
        return f"isnull({arguments[0]}){rest.removeprefix(' IS NULL')}"
    if len(arguments) == 2 and arguments[0].startswith(("zone__read_", "zone__try_")):
        return arguments[1] + rest
    operation = _operation(arguments[0]) if len(arguments) == 1 else None
    return operation + rest if operation else text


def _written(name: str, arguments: list[str]) -> list[str]:
    """The arguments without the names of types and frames that were added."""
    if name == "to_unixtime__any":
        return arguments[1:]
    if name.endswith("__frame"):
        return arguments[:-2]
    if name.startswith("json_object__"):
        return [each for position, each in enumerate(arguments) if position % 3 != 1]
    return arguments


def _restore_list(name: str, text: str) -> str | None:
    """`array_agg(x) FILTER (…)` as `name(x) FILTER (…)`; constants may stand before."""
    if name in PERCENTILES:
        return _restore_percentile(name, text)
    leading = LEADING.get(name, 0)
    parts = _split(text)
    constants, last = parts[:leading], ",".join(parts[leading:])
    closing = _closing(last, len("array_agg")) if last.startswith("array_agg(") else None
    if closing is None:
        return None
    value, tail = last[len("array_agg(") : closing], last[closing + 1 :]
    for inner in (f"{name}__place(", f"{name}__point("):
        if value.startswith(inner):
            value = value[len(inner) : -1]
    return f"{name}({','.join([*constants, value])}){tail}"


def _restore_percentile(name: str, text: str) -> str | None:
    """`p, "ASC NULLS LAST", array_agg(x) FILTER (…)` as `name(p) FILTER (…) WITHIN GROUP [x ASC NULLS LAST]`."""
    share, order, *rest = _split(text)
    last = ",".join(rest)
    closing = _closing(last, len("array_agg")) if last.startswith("array_agg(") else None
    if closing is None:
        return None
    value, tail = last[len("array_agg(") : closing], last[closing + 1 :]
    distinct = "DISTINCT " if value.startswith("DISTINCT ") else ""
    value = value.removeprefix("DISTINCT ")
    order = order.removeprefix('Utf8("').removesuffix('")')
    if not order:
        return f"{name}({distinct}{value},{share}){tail}"
    return f"{name}({distinct}{share}){tail} WITHIN GROUP [{value} {order}]"


def _operation(text: str) -> str | None:
    """`coalesce(a) % coalesce(b)` as `mod(a,b)`."""
    opening = len("coalesce")
    if not text.startswith("coalesce("):
        return None
    closing = _closing(text, opening)
    if closing is None:
        return None
    name = _OPERATOR_NAMES.get(text[closing + 2 : closing + 3])
    right = text[closing + 4 :]
    if (match := _CALENDAR.match(right)) is not None:
        return _calendar_call(match[1], text[opening + 1 : closing], _split(right[match.end() : -1]))
    if name is None or not right.startswith("coalesce(") or _closing(right, opening) != len(right) - 1:
        return None
    return f"{name}({text[opening + 1 : closing]},{right[opening + 1 : -1]})"


def _calendar_call(name: str, time: str, arguments: list[str]) -> str:
    """`ts - date_trunc__back('day', …)` as `date_trunc('day',ts)`; what only shifts a time is the time itself."""
    if name == "date_trunc__back":
        return f"date_trunc({arguments[0]},{time})"
    if name == "date_bin__back":
        origin = [] if arguments[3] == "NULL" else [arguments[3]]
        return f"date_bin({','.join([arguments[0], time, *origin])})"
    if name in ("zone__plus", "zone__minus"):
        return f"{time} {'+' if name == 'zone__plus' else '-'} {arguments[2]}"
    if name in ("date_add__zone", "date_sub__zone"):
        return f"{name.removesuffix('__zone')}({time},{arguments[2]})"
    return time


def _restore_case(name: str, test: list[str], rest: str) -> str | None:
    """Put back a call that became a CASE; `rest` begins behind its first condition."""
    depth, marks = 1, []
    for match in _WORD.finditer(_masked(rest)):
        if match[1] == "CASE":
            depth += 1
        elif depth == 1:
            marks.append(match)
        if match[1] == "END":
            depth -= 1
        if depth == 0:
            break
    if depth or len(marks) < 3:
        return None
    then, otherwise, end = marks[0], marks[-2], marks[-1]
    last = rest[otherwise.end() + 1 : end.start() - 1]
    if name == "if":
        arguments = [*test, rest[then.end() + 1 : otherwise.start() - 1], last]
    else:
        arguments = [last, *test[:-1]]
    return f"{name}({','.join(arguments)}){rest[end.end() :]}"


def _masked(text: str) -> str:
    """The text with the contents of brackets and strings blanked, so that words and commas in them do not count."""
    pieces, position = [], 0
    while (opening := text.find("(", position)) >= 0:
        closing = _closing(text, opening)
        if closing is None:
            break
        pieces.append(text[position : opening + 1] + "." * (closing - opening - 1))
        position = closing
    masked = "".join(pieces) + text[position:]
    while (blanked := _SQUARE.sub(lambda found: "." * len(found[0]), masked)) != masked:
        masked = blanked
    return masked


def _closing(text: str, opening: int) -> int | None:
    """Where the bracket that opens at `opening` closes; strings are printed as `Utf8("…")`, without escapes."""
    depth, position = 0, opening
    while position < len(text):
        character = text[position]
        if character == '"' and text[position - 1] == "(":
            position = _string_end(text, position)
            continue
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def _string_end(text: str, quote: int) -> int:
    """Behind the quote that ends the string: the first one before a bracket that something plausible follows."""
    position = quote
    while (position := text.find('")', position + 1)) >= 0:
        if position + 2 == len(text) or text[position + 2] in ",) ":
            return position + 1
    return len(text)


def _split(text: str) -> list[str]:
    """The arguments between the commas that stand outside of brackets and strings."""
    if not text:
        return []
    masked = _masked(text)
    cuts = [-1, *(position for position, character in enumerate(masked) if character == ","), len(text)]
    return [text[begin + 1 : end] for begin, end in itertools.pairwise(cuts)]
