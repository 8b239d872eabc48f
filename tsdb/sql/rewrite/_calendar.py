"""Expressions that read a calendar, in the zone of the session: truncating, binning, extracting, casting.

DataFusion computes all of them in UTC. Here they become arithmetic with intervals that functions of our own compute,
see `tsdb.query.functions`; the result has the unit of the time it is made from.

    date_trunc('day', ts)               coalesce(coalesce(ts) - date_trunc__back('day', …, 'Europe/Berlin'))
    extract(hour FROM ts)               extract(hour FROM coalesce(coalesce(ts) - zone__behind(…)))
    ts::text                            CAST(coalesce(coalesce(ts) - zone__behind(…)) AS text)
    x::text                             zone__text(arrow_typeof(x), CAST(x AS STRING), …)      x of an unknown type
    x::timestamp                        coalesce(zone__read_ms(arrow_typeof(x), …), arrow_cast(x,'Timestamp(ms)'))
    TIMESTAMP '2024-01-01'              TIMESTAMP '2023-12-31 23:00:00'
    ts AT TIME ZONE 'Asia/Tokyo'        coalesce(coalesce(ts) + zone__move(…))

There is one type of time, an instant. So `ts AT TIME ZONE z` is the instant at which clocks of the session show what
those of z show at ts; on such a time, or on a literal without a zone, AT TIME ZONE is the way back.

Expressions are edited from the inside to the outside, because what is written needs its operand several times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tsdb.model import NS_PER_UNIT, InvalidTimestamp, Kind, canonical_zone, names_zone, parse_timestamp
from tsdb.sql.function_names import spell_interval
from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite._casts import cast_text, is_plain_time, read_type, utc_text
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._functions import edit_call
from tsdb.sql.rewrite._intervals import expand_interval
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._tables import ColumnTypes
from tsdb.sql.statements import Dialect

_TEXTS = frozenset({"STRING", "VARCHAR", "TEXT", "CHAR", "CHARACTER", "NVARCHAR", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT"})
_TIME_WORDS = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "DATETIME"})
_READERS = {"TO_TIMESTAMP": "ns", "TO_TIMESTAMP_SECONDS": "s", "TO_TIMESTAMP_MILLIS": "ms", "TO_TIMESTAMP_MICROS": "us",
            "TO_TIMESTAMP_NANOS": "ns"}  # fmt: skip
_INSTANTS = frozenset({
    "DATE_TRUNC", "DATE_BIN", "NOW", "CURRENT_TIMESTAMP", "FROM_UNIXTIME", "STR_TO_DATE", *_READERS,
})  # fmt: skip
_PARTS = frozenset({"DATE_PART", "DATEPART"})
_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "VALUES", "QUALIFY"})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||"})
_INTERVAL_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"})
_LONG = re.compile(r"[\d\s](?:d|w|y|mon|day|week|month|quarter|year|decade|centur)", re.IGNORECASE)
_ZONE_WORDS = frozenset({"AT", "DATE_TRUNC"})


class _Site(NamedTuple):
    """An expression to edit: its first and last token, and who does it."""

    start: int
    end: int
    edit: Callable[[_Site], None]
    mark: int
    """The token that identifies it: a name, an operator."""


class _Operand(NamedTuple):
    """The operand of an expression: its tokens, and its text with the edits inside of it."""

    start: int
    end: int
    text: str


class Calendar:
    """The calendar expressions, casts and calls of one query."""

    def __init__(
        self, layout: TokenLayout, edits: Edits, dialect: Dialect, columns: ColumnTypes, zone: str, *, is_wide: bool
    ) -> None:
        self._layout = layout
        self._edits = edits
        self._dialect = dialect
        self._columns = columns
        self._zone = zone
        self._is_wide = is_wide
        self._is_local = zone != "UTC"
        self._sums: set[int] = set()
        """The last tokens of times that an interval is added to."""

    def edit(self) -> None:
        """Edit everything, inner expressions before outer ones."""
        for site in sorted(self._sites(), key=lambda each: (-each.start, each.end)):
            begin, end = self._span(site.start, site.end)
            if not self._edits.covers(begin, end):
                site.edit(site)

    def _sites(self) -> list[_Site]:
        layout, found = self._layout, []
        for index, token in enumerate(layout.tokens):
            word = layout.words[index]
            if token.kind == TokenKind.OPERATOR and token.text == "::":
                start = layout.operand_start(index - 1) if index else None
                if start is not None:
                    end = read_type(layout, index + 1)[1]
                    layout.operand_starts[end] = start
                    found.append(_Site(start, end, self._edit_operator, index))
            elif word == "AT" and layout.words[index + 1 : index + 3] == ["TIME", "ZONE"]:
                start = layout.operand_start(index - 1) if index else None
                last = layout.operand_end(index + 3)
                if start is not None and last is not None:
                    layout.operand_starts[last] = start
                    found.append(_Site(start, last, self._edit_at_zone, index))
            elif word == "INTERVAL" and self._is_local and (sum_ := self._sum_at(index)) is not None:
                layout.operand_starts[sum_.end] = sum_.start
                self._sums.add(sum_.end)
                found.append(sum_)
            elif word in _TIME_WORDS and layout.tokens[index + 1].kind == TokenKind.STRING:
                found.append(_Site(index, index + 1, self._edit_literal, index))
            elif word == "CURRENT_DATE" and self._is_local and layout.is_name(index):
                end = layout.partner.get(index + 1, index) if layout.is_operator(index + 1, "(") else index
                found.append(_Site(index, end, self._edit_today, index))
            elif word and layout.is_operator(index + 1, "(") and index + 1 in layout.partner:
                found.append(_Site(index, layout.partner[index + 1], self._edit_call, index))
        return found

    def _span(self, start: int, end: int) -> tuple[int, int]:
        return self._layout.tokens[start].start, self._layout.tokens[end].end

    def _put(self, site: _Site, text: str, *, keeps_before: bool = False) -> None:
        self._edits.absorb(*self._span(site.start, site.end), text, keeps_before=keeps_before)

    def _operand(self, start: int, end: int) -> _Operand:
        return _Operand(start, end, self._edits.render(*self._span(start, end)).strip())

    def _sum_at(self, index: int) -> _Site | None:
        """Return `time + INTERVAL '…'` around an INTERVAL, if the interval has calendar units."""
        layout = self._layout
        sign = layout.tokens[index - 1] if index > 1 else None
        if sign is None or sign.kind != TokenKind.OPERATOR or sign.text not in "+-":
            return None
        token = layout.tokens[index + 1]
        if token.kind not in (TokenKind.STRING, TokenKind.NUMBER):
            return None
        end = index + 2 if layout.words[index + 2].rstrip("S") in _INTERVAL_UNITS else index + 1
        text = unquote(token, self._dialect) if token.kind == TokenKind.STRING else token.text
        unit = layout.words[end] if end == index + 2 else ""
        if _LONG.search(f"{expand_interval(text)} {unit}") is None:
            return None
        start = layout.operand_start(index - 2)
        behind, before = layout.tokens[end + 1], layout.tokens[start - 1] if start else None
        if start is None or behind.text in ("*", "/", "::", "%") or layout.words[end + 1] == "AT":
            return None
        if before is not None and before.kind == TokenKind.OPERATOR and before.text in _ARITHMETIC:
            return None
        return _Site(start, end, self._edit_sum, index - 1)

    def _edit_sum(self, site: _Site) -> None:
        operand = self._operand(site.start, site.mark - 1)
        name = "zone__plus" if self._layout.tokens[site.mark].text == "+" else "zone__minus"
        self._put_shifted(site, operand, name, self._operand(site.mark + 1, site.end).text)

    def _put_shifted(self, site: _Site, operand: _Operand, name: str, step: str) -> None:
        if self._kind(operand) not in ("time", None):
            return
        sign = "-" if name in ("zone__minus", "date_sub__zone") else "+"
        call = f"{name}({self._counted(operand.text)}, {step}, '{self._zone}')"
        self._put(site, f"coalesce(coalesce({operand.text}) {sign} {call})")

    # What is known of an operand.

    def _kind(self, operand: _Operand) -> str | None:
        """Return what an operand is: a time, a date, a text, something else; None if that is not known."""
        layout, (start, end, _) = self._layout, operand
        while layout.is_operator(start, "(") and layout.partner.get(start) == end:
            start, end = start + 1, end - 1
        if start == end and layout.tokens[start].kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX):
            return "text" if layout.tokens[start].kind == TokenKind.STRING else "other"
        if layout.words[start] in _TIME_WORDS and end == start + 1:
            return "time"
        if layout.words[start] in ("INTERVAL", "TIME", "NULL", "TRUE", "FALSE", "ARRAY"):
            return "other"
        if layout.words[start] == "DATE" and end == start + 1:
            return "date"
        if layout.is_name(start) and layout.chain_end(start) == end:
            return self._column_kind(start, end)
        if layout.is_operator(start + 1, "(") and layout.partner.get(start + 1) == end:
            return self._call_kind(start, end)
        return self._cast_kind(start, end)

    def _column_kind(self, start: int, end: int) -> str | None:
        names = [unquote(self._layout.tokens[each], self._dialect) for each in range(start, end + 1, 2)]
        kind = self._columns.find(names[-2] if len(names) > 1 else None, names[-1])
        if kind is None:
            return None
        if kind.is_timestamp:
            return "time"
        return {Kind.DATE: "date", Kind.STRING: "text"}.get(kind.kind, "other")

    def _call_kind(self, start: int, end: int) -> str | None:
        word = self._layout.words[start]
        if word in _INSTANTS:
            return "time"
        if word in ("CAST", "TRY_CAST"):
            marks = [each for each in range(start + 2, end) if self._layout.words[each] == "AS"]
            return self._type_kind(marks[-1] + 1) if marks else None
        return {"CURRENT_DATE": "date", "TO_DATE": "date"}.get(word)

    def _cast_kind(self, start: int, end: int) -> str | None:
        """Return the kind of `x::type` and of `x AT TIME ZONE z`."""
        layout = self._layout
        if layout.operand_starts.get(end) != start:
            return None
        if end in self._sums:
            return "time"
        for index in range(end, start, -1):
            if layout.is_operator(index, "::") and layout.depths[index] == layout.depths[start]:
                return self._type_kind(index + 1)
            if layout.words[index] == "AT":
                return "time"
        return None

    def _type_kind(self, index: int) -> str | None:
        name, _ = read_type(self._layout, index)
        word = self._layout.words[index]
        if name is not None and name.startswith("Timestamp"):
            return "time"
        return "date" if word == "DATE" else "text" if word in _TEXTS else "other"

    def _is_difference(self, operand: _Operand) -> bool:
        """Return whether an operand is the time between two others."""
        layout = self._layout
        depth = layout.depths[operand.start]
        return any(
            layout.is_operator(index, "-") and layout.depths[index] == depth and layout.words[index + 1] != "INTERVAL"
            for index in range(operand.start + 1, operand.end)
        )

    # What is written.

    def _counted(self, text: str) -> str:
        return f"arrow_typeof({text}), arrow_cast({text},'Int64')"

    def _shown(self, text: str) -> str:
        """Return the local time of the session's zone.

        It is subtracted, not added: of a window sorted by a time and a column that WHERE sets equal to an expression of
        `ts + f(ts)`, DataFusion makes a plan that it refuses itself.
        """
        return f"coalesce(coalesce({text}) - zone__behind({self._counted(text)}, '{self._zone}'))"

    def _moved(self, text: str, source: str, target: str) -> str:
        return f"coalesce(coalesce({text}) - zone__move({self._counted(text)}, {source}, {target}))"

    def _time(self, operand: _Operand) -> str:
        """Return an operand as a time: a text is read, a date is its first instant."""
        kind = self._kind(operand)
        if kind == "text" and operand.start == operand.end:
            token = self._layout.tokens[operand.start]
            read = self.read(unquote(token, self._dialect)) if token.kind == TokenKind.STRING else None
            return operand.text if read is None else f"arrow_cast('{read}','Timestamp(ns)')"
        if kind == "text":
            return f"zone__cast_ns({operand.text}, '{self._zone}')"
        if kind == "date":
            return self._moved(f"arrow_cast({operand.text},'Timestamp(s)')", "'UTC'", f"'{self._zone}'")
        return operand.text

    def _read_any(self, text: str, unit: str, otherwise: str, *, is_try: bool = False) -> str:
        """Return an expression of an unknown type as a time: a text or a date is read, anything else is computed."""
        name = f"zone__{'try' if is_try else 'read'}_{unit}"
        return f"coalesce({name}(arrow_typeof({text}), CAST({text} AS STRING), '{self._zone}'), {otherwise})"

    def read(self, text: str) -> str | None:
        """Return a text of a time as DataFusion reads it, in UTC; None for what is none."""
        return utc_text(text, self._zone)

    # Who does it.

    def _edit_call(self, site: _Site) -> None:
        word = self._layout.words[site.mark]
        if word in ("CAST", "TRY_CAST"):
            self._edit_cast_call(site)
            return
        if (self._is_local or self._is_wide) and word in _INSTANTS:
            self._edit_compared(site)
        if word == "DATE_TRUNC":
            self._edit_truncation(site)
        elif word == "DATE_BIN":
            self._edit_bin(site)
        elif word == "EXTRACT":
            self._edit_extract(site)
        elif word in _PARTS and self._is_local:
            self._edit_part(site)
        elif word == "TO_DATE" and self._is_local:
            self._edit_to_date(site)
        elif word in _READERS:
            self._edit_reader(site)
        elif word in ("DATE_ADD", "DATE_SUB") and self._is_local:
            self._edit_shift(site)
        elif self._layout.is_call(site.mark):
            edit_call(self._layout, self._edits, site.mark)

    def _arguments(self, site: _Site) -> list[_Operand]:
        """Return the arguments of a call with their tokens."""
        layout, found = self._layout, []
        opening, closing = site.mark + 1, site.end
        if closing == opening + 1:
            return []
        depth = layout.depths[opening + 1]
        commas = [each for each in range(opening + 1, closing) if layout.is_operator(each, ",")]
        start = opening + 1
        for comma in [*(each for each in commas if layout.depths[each] == depth), closing]:
            if comma > start:
                found.append(self._operand(start, comma - 1))
            start = comma + 1
        return found

    def _edit_truncation(self, site: _Site) -> None:
        arguments = self._arguments(site)
        is_zoned = len(arguments) == 3
        if len(arguments) not in (2, 3) or not (is_zoned or self._is_local or self._is_wide):
            return
        if self._kind(arguments[1]) == "other":
            return
        zone = arguments[2].text if is_zoned else f"'{self._zone}'"
        time = self._time(arguments[1])
        back = f"date_trunc__back({arguments[0].text}, {self._counted(time)}, {zone})"
        self._put(site, f"coalesce(coalesce({time}) - {back})", keeps_before=True)

    def _edit_bin(self, site: _Site) -> None:
        arguments = self._arguments(site)
        if len(arguments) not in (2, 3) or not (self._is_local or self._is_wide):
            return
        time = self._time(arguments[1])
        origin = self._time(arguments[2]) if len(arguments) == 3 else "NULL"
        stride = arguments[0].text
        token = self._layout.tokens[arguments[0].start]
        if arguments[0].start == arguments[0].end and token.kind == TokenKind.STRING:
            stride = f"INTERVAL '{expand_interval(unquote(token, self._dialect))}'"
        back = f"date_bin__back({stride}, {self._counted(time)}, {origin}, '{self._zone}')"
        self._put(site, f"coalesce(coalesce({time}) - {back})", keeps_before=True)

    def _edit_extract(self, site: _Site) -> None:
        layout = self._layout
        if not self._is_local or layout.words[site.mark + 3] != "FROM":
            return
        self._edit_field(layout.words[site.mark + 2], self._operand(site.mark + 4, site.end - 1))

    def _edit_part(self, site: _Site) -> None:
        arguments = self._arguments(site)
        if len(arguments) != 2:
            return
        self._edit_field(arguments[0].text.strip("'").strip().upper(), arguments[1])

    def _edit_field(self, field: str, operand: _Operand) -> None:
        kind = self._kind(operand)
        if field == "EPOCH" or kind in ("other", "date") or (kind is None and self._is_difference(operand)):
            return
        begin, end = self._span(operand.start, operand.end)
        self._edits.absorb(begin, end, self._shown(self._time(operand)), keeps_before=False)

    def _edit_to_date(self, site: _Site) -> None:
        arguments = self._arguments(site)
        if len(arguments) == 1 and self._kind(arguments[0]) == "time":
            shown = self._shown(arguments[0].text)
            self._put(site, f"to_date(CAST(CAST({shown} AS DATE) AS STRING))", keeps_before=True)

    def _edit_reader(self, site: _Site) -> None:
        arguments = self._arguments(site)
        if len(arguments) != 1:
            return
        index = arguments[0].start
        token = self._layout.tokens[index]
        if index == arguments[0].end and token.kind == TokenKind.STRING:
            self._replace_literal(index)
        elif self._is_local and self._kind(arguments[0]) in ("text", None):
            name = self._layout.tokens[site.mark].text
            call = f"{name}({arguments[0].text})"
            self._put(site, self._read_any(arguments[0].text, _READERS[name.upper()], call), keeps_before=True)

    def _edit_shift(self, site: _Site) -> None:
        arguments = self._arguments(site)
        if len(arguments) != 2 or self._kind(arguments[0]) not in ("time", None):
            edit_call(self._layout, self._edits, site.mark)
            return
        step = f"CAST({spell_interval(arguments[1].text)} AS INTERVAL)"
        self._put_shifted(site, arguments[0], f"{self._layout.words[site.mark].lower()}__zone", step)

    def _replace_literal(self, index: int) -> None:
        token = self._layout.tokens[index]
        text = unquote(token, self._dialect)
        read = self.read(text)
        if read is not None and (self._is_local or not is_plain_time(text)):
            self._edits.absorb(token.start, token.end, f"'{read}'")

    def _edit_literal(self, site: _Site) -> None:
        """`TIMESTAMP '…'`; behind a cast or in one this is the type of something else."""
        if not self._edits.touches(*self._span(site.end, site.end)):
            self._replace_literal(site.end)

    def _edit_today(self, site: _Site) -> None:
        name = ' AS "current_date()"' if self._is_item(site) else ""
        self._put(site, f"CAST({self._shown('now()')} AS DATE){name}")

    def _is_item(self, site: _Site) -> bool:
        """Return whether an expression is an item of a SELECT list that has no name of its own."""
        layout = self._layout
        behind = layout.tokens[site.end + 1]
        if behind.kind != TokenKind.END and behind.text not in (",", ";", ")") and layout.words[site.end + 1] != "FROM":
            return False
        depth, index = layout.depths[site.start], site.start - 1
        if not (layout.is_operator(index, ",") or layout.words[index] == "SELECT"):
            return False
        while index >= 0 and layout.depths[index] >= depth:
            if layout.depths[index] == depth and layout.words[index] in _CLAUSES:
                return layout.words[index] == "SELECT"
            index -= 1
        return False

    def _edit_operator(self, site: _Site) -> None:
        operand = self._operand(site.start, site.mark - 1)
        self._edit_cast(site, operand, site.mark + 1, is_try=False)

    def _edit_cast_call(self, site: _Site) -> None:
        layout = self._layout
        depth = layout.depths[site.mark + 2]
        marks = [
            each
            for each in range(site.mark + 2, site.end)
            if layout.words[each] == "AS" and layout.depths[each] == depth
        ]
        if not marks or marks[-1] == site.mark + 2:
            return
        operand = self._operand(site.mark + 2, marks[-1] - 1)
        self._edit_cast(site, operand, marks[-1] + 1, is_try=layout.words[site.mark] == "TRY_CAST")

    def _edit_cast(self, site: _Site, operand: _Operand, wanted: int, *, is_try: bool) -> None:
        layout = self._layout
        name, end = read_type(layout, wanted)
        written = layout.text[layout.tokens[wanted].start : layout.tokens[end].end]
        word = layout.words[wanted]
        kind = self._kind(operand)
        if self._is_local and kind == "time" and word == "TIME":
            self._put(site, f"CAST({self._shown(operand.text)} AS {written})")
            return
        if self._is_local and (word in _TEXTS or word == "DATE") and kind in ("time", None):
            if kind == "time" and not is_try:
                self._put(site, f"CAST({self._shown(operand.text)} AS {written})")
                return
            text = f"zone__text(arrow_typeof({operand.text}), CAST({operand.text} AS STRING), '{self._zone}')"
            self._put(site, f"{'TRY_CAST' if is_try else 'CAST'}({text} AS {written})")
            return
        is_literal = operand.start == operand.end and layout.tokens[operand.start].kind == TokenKind.STRING
        if name is not None and name.startswith("Timestamp"):
            unit = name[len("Timestamp(") : -1].replace("µ", "u")
            if kind == "text" and not is_literal and not is_try:
                self._put(site, f"zone__cast_{unit}({operand.text}, '{self._zone}')")
                return
            if self._is_local and not is_literal and kind in ("text", None):
                cast = cast_text(operand.text, name, written, is_try=is_try)
                self._put(site, self._read_any(operand.text, unit, cast, is_try=is_try))
                return
            if kind == "date" and self._is_local and not is_try:
                self._put(site, f"arrow_cast({self._time(operand)},'{name}')")
                return
        if is_literal and not self._edits.touches(*self._span(operand.start, operand.end)):
            operand = operand._replace(text=self._literal_text(operand, name, word))
        elif name is None:
            return
        self._put(site, cast_text(operand.text, name, written, is_try=is_try))

    def _literal_text(self, operand: _Operand, name: str | None, word: str) -> str:
        body = unquote(self._layout.tokens[operand.start], self._dialect)
        if word == "INTERVAL":
            return f"'{expand_interval(body)}'"
        if name is None or not name.startswith("Timestamp") or (not self._is_local and is_plain_time(body)):
            return operand.text
        read = self.read(body)
        return operand.text if read is None else f"'{read}'"

    def _edit_at_zone(self, site: _Site) -> None:
        operand = self._operand(site.start, site.mark - 1)
        zone = self._operand(site.mark + 3, site.end).text
        token = self._layout.tokens[site.end]
        if token.kind == TokenKind.STRING:
            zone = f"'{canonical_zone(unquote(token, self._dialect))}'"
        here = f"'{self._zone}'"
        source, target = (here, zone) if self._is_without_zone(operand) else (zone, here)
        self._put(site, self._moved(self._time(operand), source, target))

    def _is_without_zone(self, operand: _Operand) -> bool:
        """Return whether an operand is a local time: made by AT TIME ZONE, or a literal that names no zone."""
        layout = self._layout
        moves = sum(
            layout.words[each : each + 3] == ["AT", "TIME", "ZONE"] for each in range(operand.start, operand.end)
        )
        if moves:
            return moves % 2 == 1
        for index in range(operand.start, operand.end + 1):
            if layout.tokens[index].kind == TokenKind.STRING:
                is_alone = self._kind(operand) in ("time", "text") and operand.end - operand.start <= 5
                return is_alone and not names_zone(unquote(layout.tokens[index], self._dialect))
        return False

    def _edit_compared(self, site: _Site) -> None:
        """Read texts that a time is compared with."""
        layout = self._layout
        behind = layout.tokens[site.end + 1]
        if behind.kind == TokenKind.OPERATOR and behind.text in _COMPARISONS:
            self._edit_text(site.end + 2)
        before = layout.tokens[site.start - 1] if site.start > 1 else None
        if before is not None and before.kind == TokenKind.OPERATOR and before.text in _COMPARISONS:
            self._edit_text(site.start - 2)
        index = site.end + 2 if layout.words[site.end + 1] == "NOT" else site.end + 1
        if layout.words[index] == "BETWEEN":
            self._edit_text(index + 1)
            if layout.words[index + 2] == "AND":
                self._edit_text(index + 3)
        elif layout.words[index] == "IN" and layout.is_operator(index + 1, "("):
            for each in range(index + 2, layout.partner.get(index + 1, index + 2), 2):
                self._edit_text(each)

    def _edit_text(self, index: int) -> None:
        """Replace a text that stands alone by the time it means, in the coarsest unit that holds it."""
        layout = self._layout
        token = layout.tokens[index]
        if token.kind != TokenKind.STRING or layout.words[index - 1] in ("INTERVAL", "DATE", "TIME", *_TIME_WORDS):
            return
        if layout.is_operator(index + 1, "::") or self._edits.touches(token.start, token.end):
            return
        try:
            nanoseconds = parse_timestamp(unquote(token, self._dialect), self._zone)
        except InvalidTimestamp:
            return
        unit = next(each for each, size in NS_PER_UNIT.items() if nanoseconds % size == 0)
        kind = f"Timestamp({unit.replace('us', 'µs')}) "
        self._edits.replace(token.start, token.end, f"arrow_cast({nanoseconds // NS_PER_UNIT[unit]},'{kind}')")


def needs_calendar(layout: TokenLayout, zone: str, *, is_wide: bool) -> bool:
    """Return whether a query has to be edited by `Calendar`."""
    if zone != "UTC" or is_wide:
        return True
    words = layout.words
    return any(
        (word == "AT" and words[index + 1 : index + 3] == ["TIME", "ZONE"])
        or (word == "DATE_TRUNC" and layout.is_call(index) and len(layout.arguments(index + 1)) == 3)
        for index, word in enumerate(words)
        if word in _ZONE_WORDS
    )
