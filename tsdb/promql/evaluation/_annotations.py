"""Annotations of a result: warnings and infos, each with its position in the text."""

from __future__ import annotations

import math

from tsdb.promql._ast import TextSpan

ANNOTATIONS_MAX = 10
"""How many of each kind an answer carries."""


def go_float(value: float) -> str:
    """Return a number as `%g` writes it in messages."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    return text.removesuffix(".0")


class Annotations:
    """The remarks of one query; the same one counts once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._warnings: dict[str, None] = {}
        self._infos: dict[str, None] = {}

    def warn(self, message: str, span: TextSpan) -> None:
        self._warnings[f"PromQL warning: {message} ({self._place(span)})"] = None

    def info(self, message: str, span: TextSpan) -> None:
        self._infos[f"PromQL info: {message} ({self._place(span)})"] = None

    @property
    def warnings(self) -> list[str]:
        return _some(list(self._warnings), "warning")

    @property
    def infos(self) -> list[str]:
        return _some(list(self._infos), "info")

    def _place(self, span: TextSpan) -> str:
        before = self._text[: span.start]
        return f"{before.count(chr(10)) + 1}:{span.start - (before.rfind(chr(10)) + 1) + 1}"


def _some(messages: list[str], kind: str) -> list[str]:
    if len(messages) <= ANNOTATIONS_MAX:
        return messages
    return [*messages[:ANNOTATIONS_MAX], f"{len(messages) - ANNOTATIONS_MAX} more {kind} annotations omitted"]
