"""Values of the region interface as messages: everything that `Regions` and `RegionReader` take and return.

    value ─ encode_value ─▶ message: head in JSON + buffers ─ decode_value ─▶ value

In the head, what JSON has is written as it is. Everything else is a list that begins with a letter for its kind:

    l t s   list, tuple, frozenset          m   mapping: key, value, key, value, …
    v       class, values of its fields      e   class of an enumeration, value
    d z     duration, size                   i f   integer of more than 64 bits; float that is not finite, by its bits
    y       bytes, in a buffer               E   error
    o       date, time, interval or decimal, as the default of a column may be
    b a c k n x p    record batch, array, scalar, type, numpy array, expression, samples (`_arrow.py`)

Only classes of the interface can travel; nothing is ever looked up by a name that a message gives. Objects that occur
twice in a message are sent once and arrive as one: what refers to the same array still does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tsdb.engine.reading as interface
from tsdb import model
from tsdb.engine import (
    CompactionRecord,
    CompactionResult,
    FileFacts,
    JobStatus,
    RegionStat,
    SegmentFacts,
    StrictWindows,
    VerifiedFiles,
)
from tsdb.engine.reading import Samples, as_node, is_understood
from tsdb.errors import TsdbError
from tsdb.remote import _arrow
from tsdb.remote._errors import BadMessage, CannotTravel, lower_error, raise_error
from tsdb.remote._message import Part, pack, unpack
from tsdb.store import RequestFacts
from tsdb.units import Duration, Size

_FACTS = (
    CompactionRecord,
    CompactionResult,
    FileFacts,
    JobStatus,
    RegionStat,
    RequestFacts,
    SegmentFacts,
    StrictWindows,
    VerifiedFiles,
)
CLASSES: dict[str, type] = {
    each.__name__: each
    for each in (*(getattr(module, name) for module in (interface, model) for name in module.__all__), *_FACTS)
    if isinstance(each, type) and (is_dataclass(each) or issubclass(each, Enum))
}
"""The classes whose instances are values."""
_FIELDS = {
    kind: tuple(field.name for field in fields(kind) if field.init) for kind in CLASSES.values() if is_dataclass(kind)
}
_INTEGERS = range(-(1 << 63), 1 << 64)
_BITS = struct.Struct("<d")
_LETTERS = struct.Struct("<Q")

_Lower = Callable[["_Encoder", Any], Any]


def encode_value(value: object) -> bytes:
    """Return a value as a message; CannotTravel if something in it cannot."""
    head, buffers = lower_value(value)
    return pack(head, buffers)


def decode_value(message: bytes | pa.Buffer) -> Any:
    """Return what was sent; BadMessage, or ProtocolMismatch, if it is not a message."""
    head, buffers = unpack(message if isinstance(message, pa.Buffer) else pa.py_buffer(message))
    return raise_value(head, buffers)


def lower_value(value: object) -> tuple[Any, list[Part]]:
    """Return a value as the head of a message and its buffers."""
    buffers: list[Part] = []
    return lower_into(value, buffers), buffers


def lower_into(value: object, buffers: list[Part]) -> Any:
    """Return a value as a part of the head of a message whose buffers these are; more are added."""
    try:
        return _Encoder(buffers).lower(value)
    except RecursionError as error:
        raise BadMessage("the request cannot be sent to another node: it is nested too deep") from error


def raise_value(head: Any, buffers: list[pa.Buffer]) -> Any:
    """Return a value of the head of a message."""
    try:
        return _Decoder(buffers).value(head)
    except BadMessage:
        raise
    except (Exception, RecursionError) as error:  # whatever bytes can bring about
        raise BadMessage(f"a message holds no value: {type(error).__name__}: {error}") from error


class _Encoder:
    """Makes the head of a message, and its buffers."""

    __slots__ = ("_kept", "_sent", "buffers")

    def __init__(self, buffers: list[Part]) -> None:
        self.buffers = buffers
        self._sent: dict[int, list[Any]] = {}
        self._kept: list[object] = []
        """What `_sent` knows by its identity."""

    def lower(self, value: Any) -> Any:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            return value if value in _INTEGERS else ["i", str(value)]
        if kind is float:
            return value if value - value == 0 else ["f", _LETTERS.unpack(_BITS.pack(value))[0]]
        lower = _LOWER.get(kind) or _find(kind)
        return lower(self, value)

    def lower_all(self, letter: str, values: Any) -> list[Any]:
        lower = self.lower
        return [letter, *(lower(each) for each in values)]

    def once(self, letter: str, value: object, lower: Callable[[Any, list[Part]], list[Any]]) -> list[Any]:
        """Lower an object that lies in buffers, the first time it occurs."""
        known = self._sent.get(id(value))
        if known is None:
            known = self._sent[id(value)] = [letter, *lower(value, self.buffers)]
            self._kept.append(value)
        return known


def _lower_mapping(encoder: _Encoder, value: Mapping[Any, Any]) -> list[Any]:
    return encoder.lower_all("m", (each for pair in value.items() for each in pair))


def _lower_value(encoder: _Encoder, value: Any) -> list[Any]:
    kind = type(value)
    lower = encoder.lower
    return ["v", kind.__name__, *(lower(getattr(value, name)) for name in _FIELDS[kind])]


def _lower_bytes(encoder: _Encoder, value: bytes) -> list[Any]:
    encoder.buffers.append(value)
    return ["y", len(encoder.buffers) - 1]


def _lower_object(encoder: _Encoder, value: Any) -> list[Any]:
    return ["o", *_arrow.lower_scalar(pa.scalar(value), encoder.buffers)]


def _lower_expression(encoder: _Encoder, value: pc.Expression) -> list[Any]:
    """A tree that the engine understands is sent as one: it is read without Arrow, and only once."""
    node = as_node(value)
    if node is not None and is_understood(node):
        lowered: list[Any] = encoder.lower(node)
        return lowered
    return encoder.once("x", value, _arrow.lower_expression)


def _of_arrow(letter: str, lower: Callable[[Any, list[Part]], list[Any]]) -> _Lower:
    return lambda encoder, value: encoder.once(letter, value, lower)


_LOWER: dict[type, _Lower] = {
    list: lambda encoder, value: encoder.lower_all("l", value),
    tuple: lambda encoder, value: encoder.lower_all("t", value),
    frozenset: lambda encoder, value: encoder.lower_all("s", value),
    Duration: lambda encoder, value: ["d", int(value)],
    Size: lambda encoder, value: ["z", int(value)],
    bytes: _lower_bytes,
    **dict.fromkeys((datetime, date, time, timedelta, Decimal), _lower_object),
    **dict.fromkeys(_FIELDS, _lower_value),
    **{
        kind: lambda encoder, value: ["e", type(value).__name__, value.value]
        for kind in CLASSES.values()
        if issubclass(kind, Enum)
    },
}
_BASES: tuple[tuple[type, _Lower], ...] = (
    (pa.RecordBatch, _of_arrow("b", _arrow.lower_batch)),
    (pa.Array, _of_arrow("a", _arrow.lower_array)),
    (pa.Scalar, _of_arrow("c", _arrow.lower_scalar)),
    (pa.DataType, lambda encoder, value: ["k", *_arrow.lower_type(value, encoder.buffers)]),
    (np.ndarray, _of_arrow("n", _arrow.lower_numpy)),
    (pc.Expression, _lower_expression),
    (Samples, _of_arrow("p", _arrow.lower_samples)),
    (TsdbError, lambda encoder, value: ["E", lower_error(value)]),
    (Mapping, _lower_mapping),
)


def _find(kind: type) -> _Lower:
    for base, lower in _BASES:
        if issubclass(kind, base):
            _LOWER[kind] = lower
            return lower
    raise CannotTravel(f"{kind.__name__} cannot be sent to another node")


class _Decoder:
    """Reads values of the head of a message."""

    __slots__ = ("_arrived", "buffers")

    def __init__(self, buffers: list[pa.Buffer]) -> None:
        self.buffers = buffers
        self._arrived: dict[tuple[str, int], Any] = {}

    def value(self, lowered: Any) -> Any:
        if type(lowered) is not list:
            if type(lowered) is dict:
                raise BadMessage("a message holds an object without a kind")
            return lowered
        letter = lowered[0]
        plain = _RAISE.get(letter)
        if plain is not None:
            return plain(self, lowered)
        raised, at = _RAISE_ARROW[letter], lowered[1]
        if type(at) is not int:
            return raised(self.buffers, *lowered[1:])
        found = self._arrived.get((letter, at))
        if found is None:
            found = self._arrived[letter, at] = raised(self.buffers, *lowered[1:])
        return found

    def all(self, lowered: list[Any]) -> list[Any]:
        value = self.value
        return [value(lowered[at]) for at in range(1, len(lowered))]


def _raise_mapping(decoder: _Decoder, lowered: list[Any]) -> dict[Any, Any]:
    flat = decoder.all(lowered)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _raise_value(decoder: _Decoder, lowered: list[Any]) -> Any:
    kind = CLASSES[lowered[1]]
    value = decoder.value
    names = _FIELDS[kind]
    if len(lowered) != len(names) + 2:
        raise BadMessage(f"a value of {kind.__name__} has {len(lowered) - 2} fields, expected {len(names)}")
    return kind(**{name: value(lowered[at]) for at, name in enumerate(names, 2)})


_RAISE: dict[Any, Callable[[_Decoder, list[Any]], Any]] = {
    "l": _Decoder.all,
    "t": lambda decoder, lowered: tuple(decoder.all(lowered)),
    "s": lambda decoder, lowered: frozenset(decoder.all(lowered)),
    "m": _raise_mapping,
    "v": _raise_value,
    "e": lambda decoder, lowered: CLASSES[lowered[1]](lowered[2]),
    "d": lambda decoder, lowered: Duration(lowered[1]),
    "z": lambda decoder, lowered: Size(lowered[1]),
    "i": lambda decoder, lowered: int(lowered[1]),
    "f": lambda decoder, lowered: _BITS.unpack(_LETTERS.pack(lowered[1]))[0],
    "y": lambda decoder, lowered: decoder.buffers[lowered[1]].to_pybytes(),
    "k": lambda decoder, lowered: _arrow.raise_type(decoder.buffers, lowered[1]),
    "p": lambda decoder, lowered: _arrow.raise_samples(decoder.buffers, *lowered[1:]),
    "E": lambda decoder, lowered: raise_error(lowered[1]),
    "o": lambda decoder, lowered: _arrow.raise_scalar(decoder.buffers, *lowered[1:]).as_py(),
}
_RAISE_ARROW: dict[Any, Callable[..., Any]] = {
    "b": _arrow.raise_batch,
    "a": _arrow.raise_array,
    "c": _arrow.raise_scalar,
    "n": _arrow.raise_numpy,
    "x": _arrow.raise_expression,
}

__all__ = ["CLASSES", "decode_value", "encode_value", "lower_into", "lower_value", "raise_value"]
