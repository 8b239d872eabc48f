"""Paths into JSON values: parsed once, then applied to many documents.

    path       = [$] step…                                     `a.b`, `$.a`, `a:b`, `a["b"]`, `$.list[0].x`
    step       = .name | :name | ."name" | .* | .** | ["name"] | [index, …] | [*] | ?(predicate)
    index      = n | last | last - n | index to index          a negative n counts from the end
    predicate  = test { && test } { || … } | !(…) | exists(path)
    test       = operand (== | != | <> | < | <= | > | >=) operand | operand starts with "text"
    operand    = path from @ or $ | literal

A whole path may also be a predicate, `$.a > 1`, which is true or false of a document. Every step may find any number of
values; they come in the order of the document.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>(?:[^\W\d]|\\.)(?:[\w\-]|\\.)*)"""
    r"""|(?P<sign>&&|\|\||==|!=|<>|<=|>=|\*\*|[<>!$@.:\[\]()?*,+\-=]))""",
    re.DOTALL,
)
_DEPTH_MAX = 64

Step: TypeAlias = Callable[[Any, Any], Iterable[Any]]
"""From a value and the whole document to the values found there."""


class PathError(ValueError):
    """The text is not a path."""


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path or predicate."""

    steps: tuple[Step, ...]
    keys: tuple[str, ...] | None
    """The steps, if every one is a plain name: the common case, which needs no generators."""
    predicate: Callable[[Any], bool] | None = None

    def first(self, document: Any) -> Any:
        """Return the first value found, MISSING if there is none."""
        if self.keys is not None:
            for key in self.keys:
                if type(document) is not dict or key not in document:
                    return MISSING
                document = document[key]
            return document
        found = self.find(document)
        return found[0] if found else MISSING

    def find(self, document: Any) -> list[Any]:
        """Return the values found, in order; a predicate gives one boolean."""
        if self.predicate is not None:
            return [self.predicate(document)]
        return _walk(self.steps, document, document)


class _Missing:
    """What a path finds where there is nothing; JSON null is something."""


MISSING = _Missing()


def _walk(steps: Sequence[Step], value: Any, document: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [found for each in values for found in step(each, document)]
    return values


@lru_cache(maxsize=512)
def parse_path(text: str) -> Path:
    """Parse a path; PathError says what is wrong."""
    return _PathParser(text).parse()


class _PathParser:
    """Recursive descent over a list of tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize())
        self._at = 0
        self._depth = 0
        self._has_descendants = False

    def _tokenize(self) -> Iterator[tuple[str, str]]:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                raise PathError(f"character {position + 1} of {self._text!r} is not part of a path")
            yield match.lastgroup, match[match.lastgroup]
            position = match.end()

    def _fail(self, expected: str) -> NoReturn:
        found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
        raise PathError(f"expected {expected}, found {found} in the path {self._text!r}")

    def _peek(self, ahead: int = 0) -> str:
        """A sign or a word as it is; what else stands there by its kind, so that `"["` is not taken for `[`."""
        position = self._at + ahead
        if position >= len(self._tokens):
            return ""
        kind, text = self._tokens[position]
        return text if kind in ("sign", "word") else f"<{kind}>"

    def _take(self, *choices: str) -> str | None:
        if self._peek() not in choices:
            return None
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            self._fail(f"'{sign}'")

    def parse(self) -> Path:
        if not self._tokens:
            raise PathError("the path is empty")
        path = self._parse_top()
        if path is None:
            self._at = 0
            test = self._parse_any()
            path = Path((), None, lambda document: test(document, document))
        if self._at < len(self._tokens):
            self._fail("the end")
        return path

    def _parse_top(self) -> Path | None:
        """A path, None if the text must be a predicate."""
        if self._peek() in ("(", "!", "exists", "@", "<number>") and self._peek(1) not in ("", ".", ":"):
            return None
        if not self._take("$") and self._peek() in ("<string>", "*"):
            self._fail("a name")
        steps, keys = self._parse_steps(is_start=self._at == 0)
        return Path(steps, keys) if self._at == len(self._tokens) else None

    def _parse_steps(self, *, is_start: bool = False) -> tuple[tuple[Step, ...], tuple[str, ...] | None]:
        steps: list[Step] = []
        keys: list[str] | None = []
        if is_start and self._peek() not in ("[", ".", ":", "?"):
            keys = [self._parse_name()]
            steps.append(_member(keys[0]))
        while (sign := self._peek()) in (".", ":", "[", "?"):
            key, step = self._parse_step(sign)
            steps.append(step)
            keys = [*keys, key] if keys is not None and key is not None else None
        return tuple(steps), tuple(keys) if keys is not None else None

    def _parse_step(self, sign: str) -> tuple[str | None, Step]:
        self._at += 1
        if sign == "?":
            self._expect("(")
            test = self._parse_any()
            self._expect(")")
            return None, lambda value, document: (value,) if test(value, document) else ()
        if sign == "[":
            return self._parse_brackets()
        if self._take("*"):
            return None, _members
        if self._take("**"):
            # Each would find values again that the one before has found: their number would explode.
            if self._has_descendants:
                self._fail("'**' only once")
            self._has_descendants = True
            return None, _descendants
        name = self._parse_name()
        return name, _member(name)

    def _parse_name(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind == "string":
            self._at += 1
            return _unquoted(text)
        if kind not in ("word", "number"):
            self._fail("a name")
        self._at += 1
        return re.sub(r"\\(.)", r"\1", text)

    def _parse_brackets(self) -> tuple[str | None, Step]:
        if self._peek() == "<string>":
            name = self._parse_name()
            self._expect("]")
            return name, _member(name)
        if self._take("*"):
            self._expect("]")
            return None, _elements
        ranges = [self._parse_range()]
        while self._take(","):
            ranges.append(self._parse_range())
        self._expect("]")
        return None, _indexed(tuple(ranges))

    def _parse_range(self) -> tuple[_Index, _Index]:
        first = self._parse_index()
        return first, self._parse_index() if self._take("to") else first

    def _parse_index(self) -> _Index:
        if self._take("last"):
            if self._take("-"):
                return _Index(-1 - self._parse_integer())
            return _Index(-1 + (self._parse_integer() if self._take("+") else 0), is_last=True)
        if self._take("-"):
            return _Index(-self._parse_integer())
        return _Index(self._parse_integer())

    def _parse_integer(self) -> int:
        if self._peek() != "<number>" or not self._tokens[self._at][1].isdigit():
            self._fail("an index")
        self._at += 1
        return int(self._tokens[self._at - 1][1])

    def _parse_any(self) -> _Test:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise PathError(f"more than {_DEPTH_MAX} conditions inside each other in the path {self._text!r}")
        tests = [self._parse_all()]
        while self._take("||"):
            tests.append(self._parse_all())
        self._depth -= 1
        return tests[0] if len(tests) == 1 else lambda value, document: any(test(value, document) for test in tests)

    def _parse_all(self) -> _Test:
        tests = [self._parse_test()]
        while self._take("&&"):
            tests.append(self._parse_test())
        return tests[0] if len(tests) == 1 else lambda value, document: all(test(value, document) for test in tests)

    def _parse_test(self) -> _Test:
        if self._take("!"):
            inner = self._parse_test()
            return lambda value, document: not inner(value, document)
        if self._take("("):
            test = self._parse_any()
            self._expect(")")
            return test
        if self._peek() == "exists" and self._peek(1) == "(":
            self._at += 2
            operand = self._parse_operand()
            self._expect(")")
            return lambda value, document: bool(list(operand(value, document)))
        return self._parse_comparison()

    def _parse_comparison(self) -> _Test:
        left = self._parse_operand()
        if self._peek() == "starts" and self._peek(1) == "with":
            self._at += 2
            return _any_pair(left, self._parse_operand(), _starts_with)
        sign = self._take(*_COMPARISONS)
        if sign is None:
            self._fail("a comparison")
        return _any_pair(left, self._parse_operand(), _COMPARISONS[sign])

    def _parse_operand(self) -> Step:
        if root := self._take("@", "$"):
            steps, _ = self._parse_steps()
            if root == "@":
                return lambda value, document: _walk(steps, value, document)
            return lambda value, document: _walk(steps, document, document)
        literal = self._parse_literal()
        return lambda value, document: (literal,)

    def _parse_literal(self) -> Any:
        sign = -1 if self._take("-") else 1
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind == "number":
            self._at += 1
            return sign * (int(text) if text.isdigit() else float(text))
        if kind == "string" and sign == 1:
            self._at += 1
            return _unquoted(text)
        if text.lower() not in _WORDS or sign == -1:
            self._fail("a value")
        self._at += 1
        return _WORDS[text.lower()]


_Test: TypeAlias = Callable[[Any, Any], bool]
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class _Index:
    """A place in an array; below zero it counts from the end."""

    number: int
    is_last: bool = False

    def place(self, length: int) -> int:
        return self.number + length if self.number < 0 or self.is_last else self.number


def _member(name: str) -> Step:
    return lambda value, _: (value[name],) if isinstance(value, dict) and name in value else ()


def _members(value: Any, _: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else ()


def _elements(value: Any, _: Any) -> Iterable[Any]:
    # A value that is no array is taken for an array of one.
    return value if isinstance(value, list) else (value,)


def _descendants(value: Any, document: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _descendants(child, document)


def _indexed(ranges: tuple[tuple[_Index, _Index], ...]) -> Step:
    def step(value: Any, _: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        for first, last in ranges:
            begin, end = first.place(len(value)), last.place(len(value))
            yield from value[max(begin, 0) : min(end + 1, len(value))] if end >= 0 else ()

    return step


def _unquoted(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

    def resolve(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else escapes.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", resolve, text[1:-1], flags=re.DOTALL)


def _starts_with(left: Any, right: Any) -> bool:
    return isinstance(left, str) and isinstance(right, str) and left.startswith(right)


def _any_pair(left: Step, right: Step, compare: Callable[[Any, Any], bool]) -> _Test:
    """True if some pair of the values found on both sides compares so."""

    def test(value: Any, document: Any) -> bool:
        others = list(right(value, document))
        return any(compare(each, other) for each in left(value, document) for other in others)

    return test


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Values of different kinds do not compare, objects and arrays have no order."""

    def test(left: Any, right: Any) -> bool:
        return _kind(left) == _kind(right) and _kind(left) in ("bool", "number", "str") and compare(left, right)

    return test


def _equal(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) and left == right


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "=": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<>": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}
