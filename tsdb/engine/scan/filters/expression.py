"""Filters as trees that can be looked into.

Arrow's expressions are closed, but they can be written down: serialised, an expression is a record batch with its
literals and metadata that lists its calls in order. That form is exact, where the text of an expression is not: it
leaves out types and does not quote names. DataFusion hands filters over as such expressions.

    ("call", "equal") ("field_ref", "host") ("literal", "0") ("end", "equal")     literals: ["a"]
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Ref:
    """A column."""

    name: str
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset((self.name,)))


@dataclass(frozen=True, slots=True)
class Constant:
    value: pa.Scalar
    names: frozenset[str] = field(init=False, default=frozenset())

    def __reduce__(self) -> tuple[Any, ...]:
        return _constant_of, (_array_of(self.value),)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of Arrow on arguments, with its options if it has any."""

    function: str
    arguments: tuple[Node, ...]
    options: pa.StructScalar | None = None
    names: frozenset[str] = field(init=False)
    """Every column below."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset().union(*(each.names for each in self.arguments)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _call_of, (self.function, self.arguments, None if self.options is None else _array_of(self.options))


def _array_of(value: pa.Scalar) -> pa.Array:
    """Return a value in the form in which it travels.

    Arrow pickles a scalar as a Python object. For a time with nanoseconds that is one of pandas, which the process that
    gets it would have to import, and without pandas there is none.
    """
    return pa.repeat(value, 1)


def _constant_of(values: pa.Array) -> Constant:
    return Constant(values[0])


def _call_of(function: str, arguments: tuple[Node, ...], options: pa.Array | None) -> Call:
    return Call(function, arguments, None if options is None else options[0])


Node = Ref | Constant | Call
Token = tuple[bytes, bytes]

_CHAINED = frozenset({"and_kleene", "or_kleene"})


class Undecodable(ValueError):
    """The expression holds something that is not a column, a literal or a call."""


def decode_expression(expression: pc.Expression | pa.Scalar | Node) -> Node:
    """Return an expression as a tree; DataFusion hands a filter that is constant over as a scalar."""
    if isinstance(expression, Ref | Constant | Call):
        return expression
    if isinstance(expression, pa.Scalar):
        return Constant(expression)
    _, (serialised,) = expression.__reduce__()
    return decode_serialised(serialised)


def decode_serialised(serialised: pa.Buffer) -> Node:
    """Read an expression as Arrow writes it down, without Arrow, which trusts what it reads.

    Of bytes that Arrow has not written any error may come.
    """
    with pa.ipc.open_file(serialised) as reader:
        whole = reader.get_batch(0)
        whole.validate(full=True)
        literals = whole.columns
        tokens = _ordered_metadata(reader.schema)
        return _decode(next(tokens), tokens, literals)


def conjuncts_of(node: Node) -> Iterator[Node]:
    """Yield what must all be true."""
    if isinstance(node, Call) and node.function in ("and", "and_kleene"):
        for argument in node.arguments:
            yield from conjuncts_of(argument)
    else:
        yield node


def joined(function: str, parts: Sequence[Node]) -> Node:
    """Return conditions that AND or OR joins as a tree whose depth grows with the logarithm of their number.

    Everything that walks over filters recurses; a chain of thousands as deep as it is long would end that.
    """
    nodes = list(parts)
    while len(nodes) > 1:
        pairs = [Call(function, (left, right)) for left, right in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = [*pairs, *nodes[2 * len(pairs) :]]
    return nodes[0]


@dataclass(slots=True)
class _OpenCall:
    """A call whose end was not read yet. A chain of AND or OR is one of them, however deep it is written."""

    function: str
    arguments: list[Node] = field(default_factory=list)
    options: pa.StructScalar | None = None
    chained: int = 0
    """How many calls of the same connective are open within this one."""

    def close(self) -> Node:
        if self.function in _CHAINED and len(self.arguments) > 2:
            return joined(self.function, self.arguments)
        return Call(self.function, tuple(self.arguments), self.options)


def _decode(first: Token, rest: Iterator[Token], literals: list[pa.Array]) -> Node:
    opened: list[_OpenCall] = []
    for key, value in chain((first,), rest):
        if key == b"call":
            function = value.decode()
            if opened and function in _CHAINED and opened[-1].function == function:
                opened[-1].chained += 1
            else:
                opened.append(_OpenCall(function))
            continue
        if key == b"options":
            opened[-1].options = literals[int(value)][0]
            continue
        if key == b"end":
            if opened[-1].chained:
                opened[-1].chained -= 1
                continue
            node: Node = opened.pop().close()
        elif key == b"field_ref":
            node = Ref(value.decode())
        elif key == b"literal":
            node = Constant(literals[int(value)][0])
        else:
            raise Undecodable(f"{key!r} in an expression")
        if not opened:
            return node
        opened[-1].arguments.append(node)
    raise Undecodable("an expression ends within a call")


class _ArrowSchema(ctypes.Structure):
    """The head of the structure of Arrow's C data interface; the rest is not needed."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_LENGTH = struct.Struct("=i")
_Window = ctypes.c_char * (1 << 30)
_capsule_pointer: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _ordered_metadata(schema: pa.Schema) -> Iterator[Token]:
    """Yield a schema's metadata in order and with repeated keys, which the dictionary that pyarrow offers loses.

    The C data interface defines the layout: a number of pairs, then each key and value behind its length.
    """
    capsule = schema.__arrow_c_schema__()
    address = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return
    # A view of more than there is: only bytes that the lengths account for are ever touched, and they stay valid as
    # long as the capsule does.
    memory = memoryview(_Window.from_address(address)).cast("B")
    read_length = _LENGTH.unpack_from
    texts = []
    at = _LENGTH.size
    for _ in range(2 * read_length(memory, 0)[0]):
        start = at + _LENGTH.size
        at = start + read_length(memory, at)[0]
        texts.append(memory[start:at].tobytes())
    yield from zip(texts[::2], texts[1::2], strict=True)
