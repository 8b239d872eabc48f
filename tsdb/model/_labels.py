r"""The labels of a series as one text, and back. `docs/format/labels.md` describes the form.

    host="a", job="b", zone absent   ─▶   host \x01 a \x00 job \x01 b \x00

- Names ascend, labels without a value are left out: equal sets of labels have equal texts, and only they have.
- Texts are in the order of their lists of (name, value); of series with the same names, in that of the values.
- `\x00` to `\x02` inside a name or value are `\x02\x03` to `\x02\x05`, which keeps both properties.

Everything works on whole columns; there is no Python per series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_PAIR_END = "\x00"
_NAME_END = "\x01"
_ESCAPE = "\x02"

# The escape itself comes first on the way in and last on the way out.
_ESCAPES = ((_ESCAPE, "\x02\x05"), (_PAIR_END, "\x02\x03"), (_NAME_END, "\x02\x04"))


def encode_labels(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Return the labels of each row as text; a null is a label that the row does not have."""
    if not columns:
        return pa.repeat(pa.scalar("", pa.string()), rows)
    pairs = [
        pc.binary_join_element_wise(_escape_name(name) + _NAME_END, _escape(columns[name]), _PAIR_END, "")
        for name in sorted(columns, key=str.encode)
    ]
    return pc.binary_join_element_wise(*pairs, "", null_handling="replace", null_replacement="")


def decode_labels(texts: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    """Return the columns of some labels; null where a text does not have the label."""
    listed = pc.split_pattern(texts, _PAIR_END)
    rows, pairs = pc.list_parent_indices(listed), listed.flatten()
    # Behind the end of the last pair is an empty one, and no other is empty.
    filled = pc.not_equal(pairs, "")
    rows, pairs = rows.filter(filled), pairs.filter(filled)
    halves = pc.split_pattern(pairs, _NAME_END, max_splits=1).flatten()
    places = np.arange(0, len(halves), 2)
    found = halves.take(pa.array(places)).dictionary_encode()
    chosen = _group(np.asarray(found.indices), len(found.dictionary))
    known = dict(zip(found.dictionary.to_pylist(), chosen, strict=True))
    owners = np.asarray(rows)
    return [_spread(halves, owners, known.get(_escape_name(name)), len(texts)) for name in names]


def _group(codes: npt.NDArray[np.int32], count: int) -> list[npt.NDArray[np.int64]]:
    """Return for each code where it is."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, count))) if count else []


def _spread(
    halves: pa.Array, owners: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64] | None, rows: int
) -> pa.Array:
    """Return the values of some pairs, each at the row that owns the pair."""
    if pairs is None:
        return pa.nulls(rows, pa.string())
    values = 2 * pairs + 1
    if len(pairs) == rows:
        # Every row has the label, and pairs are in the order of rows.
        return _unescape(halves.take(pa.array(values)))
    source = np.zeros(rows, dtype=np.int64)
    is_absent = np.ones(rows, dtype=np.bool_)
    source[owners[pairs]] = values
    is_absent[owners[pairs]] = False
    return _unescape(halves.take(pa.array(source, mask=is_absent)))


def _escape_name(name: str) -> str:
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


def _escape(values: pa.Array) -> pa.Array:
    if not _has_special(values):
        return values
    for plain, escaped in _ESCAPES:
        values = pc.replace_substring(values, plain, escaped)
    return values


def _has_special(values: pa.Array) -> bool:
    """Whether a character must be escaped; in UTF-8 these are bytes that nothing else has."""
    _, offsets, content = values.buffers()
    if content is None or not len(values):
        return False
    bounds = np.frombuffer(offsets, dtype=np.int32)[[values.offset, values.offset + len(values)]]
    used = np.frombuffer(content, dtype=np.uint8)[bounds[0] : bounds[1]]
    return bool(len(used)) and bool(used.min() <= ord(_ESCAPE))


def _unescape(values: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(values, _ESCAPE)).as_py():
        return values
    for plain, escaped in reversed(_ESCAPES):
        values = pc.replace_substring(values, escaped, plain)
    return values
