"""The line protocol in plain Python, character by character: what `LineParser` is compared with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

Value = float | int | bool | str

INT = range(-(1 << 63), 1 << 63)
UINT = range(1 << 64)
TRUE = ("t", "T", "true", "True", "TRUE")
FALSE = ("f", "F", "false", "False", "FALSE")


class Refused(Exception):
    """The body is refused; the arguments are the line and the column."""


@dataclass
class Row:
    measurement: str
    tags: dict[str, str]
    fields: dict[str, tuple[str, Value]]
    """The type and the value of each."""
    time: int
    line: int


def parse(body: bytes, *, factor: int = 1, default_time: int = 0) -> list[Row]:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start].decode()
        raise Refused(before.count("\n") + 1, len(before) - before.rfind("\n")) from None
    return _Reader(text, factor, default_time).rows()


class _Reader:
    def __init__(self, text: str, factor: int, default_time: int) -> None:
        self.text, self.factor, self.default_time = text, factor, default_time
        self.at = 0
        self.types: dict[tuple[str, str], str] = {}
        self.tags: set[tuple[str, str]] = set()

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        while True:
            self.skip_spaces()
            if self.at == len(self.text):
                return rows
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                self.end_line()
            elif self.is_end():
                self.end_line()
            else:
                rows.append(self.row())

    def row(self) -> Row:
        line = self.text.count("\n", 0, self.at) + 1
        start = self.text.rfind("\n", 0, self.at) + 1
        measurement, tags = self.key()
        if self.peek() != " ":
            self.refuse()
        for tag in tags:
            if (measurement, tag) in self.types:
                self.refuse(start)
        self.tags.update((measurement, tag) for tag in tags)
        self.skip_spaces()
        fields = self.fields(measurement)
        return Row(measurement, tags, fields, self.time(), line)

    def key(self) -> tuple[str, dict[str, str]]:
        measurement = self.name(", ")
        if not measurement:
            self.refuse()
        tags: dict[str, str] = {}
        while self.peek() == ",":
            self.at += 1
            start = self.at
            name = self.name(",= ")
            if not name or self.peek() != "=":
                self.refuse()
            if name in tags:
                self.refuse(start)
            self.at += 1
            tags[name] = self.name(",= ")
            if not tags[name] or self.peek() == "=":
                self.refuse()
        return measurement, tags

    def name(self, ends: str) -> str:
        read = ""
        while self.at < len(self.text) and self.text[self.at] not in ends + "\n":
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in tuple(ends):
                self.at += 1
            read += self.text[self.at]
            self.at += 1
        return read

    def fields(self, measurement: str) -> dict[str, tuple[str, Value]]:
        if self.at == len(self.text) or self.is_end():
            self.refuse()
        fields: dict[str, tuple[str, Value]] = {}
        while True:
            start = self.at
            name = self.name(",= ")
            if not name or self.peek() != "=":
                self.refuse()
            self.at += 1
            value_start = self.at
            kind, value = self.value()
            if (measurement, name) not in self.types and (measurement, name) in self.tags:
                self.refuse(start)
            if name in fields:
                self.refuse(start)
            if self.types.setdefault((measurement, name), kind) != kind:
                self.refuse(value_start)
            fields[name] = kind, value
            if self.peek() == ",":
                self.at += 1
            elif self.peek() in ("", " ") or self.is_end():
                return fields
            else:
                self.refuse()

    def value(self) -> tuple[str, Value]:
        first = self.peek()
        if first == '"':
            return "string", self.quoted()
        if first in tuple("tTfF"):
            word = self.match(r"[A-Za-z]+")
            if word not in TRUE + FALSE:
                self.refuse()
            self.at += len(word)
            return "bool", word in TRUE
        if first not in tuple("0123456789+-."):
            self.refuse()
        return self.number()

    def quoted(self) -> str:
        opening = self.at
        read, self.at = "", self.at + 1
        while True:
            if self.at >= len(self.text):
                self.refuse(opening)
            if self.text[self.at] == '"':
                self.at += 1
                return read
            if self.text[self.at : self.at + 2] in ('\\"', "\\\\"):
                self.at += 1
            read += self.text[self.at]
            self.at += 1

    def number(self) -> tuple[str, Value]:
        start = self.at
        whole = self.match(r"[+-]?[0-9]*")
        digits = whole.lstrip("+-")
        suffix = self.text[self.at + len(whole) : self.at + len(whole) + 1]
        if digits and suffix in ("i", "u"):
            if int(whole) not in (INT if suffix == "i" else UINT) or (suffix == "u" and whole[0] == "-"):
                self.refuse()
            self.at += len(whole) + 1
            return ("int" if suffix == "i" else "uint"), int(whole)
        self.at += len(whole)
        fraction = self.match(r"(\.[0-9]*)?")
        self.at += len(fraction)
        if not digits and len(fraction) < 2:
            self.refuse()
        exponent = self.match(r"([eE][+-]?[0-9]*)?")
        self.at += len(exponent)
        if exponent and not exponent[-1].isdigit():
            self.refuse()
        value = float(self.text[start : self.at])
        if value in (float("inf"), float("-inf")):
            self.refuse(start)
        return "float", value

    def time(self) -> int:
        self.skip_spaces()
        time = self.default_time
        if not (self.at == len(self.text) or self.is_end()):
            digits = self.match(r"-?[0-9]+")
            if not digits or int(digits) * self.factor not in INT:
                self.refuse()
            time = int(digits) * self.factor
            self.at += len(digits)
            self.skip_spaces()
            if not (self.at == len(self.text) or self.is_end()):
                self.refuse()
        self.end_line()
        return time

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def match(self, pattern: str) -> str:
        found = re.compile(pattern, re.ASCII).match(self.text, self.at)
        return found.group() if found else ""

    def skip_spaces(self) -> None:
        while self.peek() == " ":
            self.at += 1

    def is_end(self) -> bool:
        return self.peek() == "\n" or (self.peek() == "\r" and self.text[self.at + 1 : self.at + 2] in ("", "\n"))

    def end_line(self) -> None:
        for character in "\r\n":
            if self.peek() == character:
                self.at += 1

    def refuse(self, at: int | None = None) -> NoReturn:
        before = self.text[: self.at if at is None else at]
        raise Refused(before.count("\n") + 1, len(before) - before.rfind("\n"))
