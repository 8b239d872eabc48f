"""Arrow and numpy data in messages: what is written in the head, and what lies in buffers.

    record batch, array   its schema, and the batch as Arrow IPC has it; with dictionaries, a whole IPC stream
    numpy array           its bytes
    scalar                of common types in the head, else as an array of one
    expression            as Arrow serialises it; the sender sends a tree where it can
    samples               places, offsets, times and values

Everything that arrives is validated in full before it is used: offsets and indices that point elsewhere would crash
whatever reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb._kernels import SamplePiece, SeriesStretches
from tsdb.engine.reading import Call, Node, Samples, decode_serialised
from tsdb.remote._errors import BadMessage
from tsdb.remote._message import Part
from tsdb.weighted_cache import WeightedCache

_SCHEMAS_BYTES_MAX = 16 << 20
_COLUMN_BYTES = 350
_NUMBERS = frozenset("biufMm")
"""Kinds of numpy types whose values are their bytes."""
_INT64 = np.iinfo(np.int64)

_restore_expression: Callable[[pa.Buffer], pc.Expression] = pc.field("a").__reduce__()[0]


def _parse_schema(encoded: bytes) -> pa.Schema:
    schema = pa.ipc.read_schema(pa.py_buffer(encoded))
    str(schema)  # names that are no text are found here, and not by those who read them
    return schema


_read_schema = WeightedCache(
    _parse_schema,
    weigh=lambda _, schema: _COLUMN_BYTES * (1 + len(schema)),
    weight_max=_SCHEMAS_BYTES_MAX,
    owner="remote_schemas",
)
_SIMPLE: dict[str, pa.DataType] = {
    str(each): each
    for each in (
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float64(), pa.string(), pa.null()),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    )
}
"""Types whose scalars are written in the head."""
_SIMPLE_NAMES = {kind: name for name, kind in _SIMPLE.items()}


def lower_batch(batch: pa.RecordBatch, buffers: list[Part]) -> list[Any]:
    """Add a record batch to the buffers of a message."""
    at = len(buffers)
    if any(_has_dictionary(kind) for kind in batch.schema.types):
        buffers.append(_stream(batch))
        return [at]
    buffers += (batch.schema.serialize(), batch.serialize())
    return [at, at + 1]


def raise_batch(buffers: list[pa.Buffer], at: int, body: int | None = None) -> pa.RecordBatch:
    """Read a record batch."""
    if body is None:
        batch = pa.ipc.open_stream(buffers[at]).read_next_batch()
        str(batch.schema)
    else:
        batch = pa.ipc.read_record_batch(buffers[body], _read_schema(buffers[at].to_pybytes()))
    batch.validate(full=True)
    return batch


def lower_rows(batch: pa.RecordBatch, *, is_first: bool) -> list[Part]:
    """Return a batch of a scan as buffers: behind the first one comes the schema of all."""
    if has_dictionary(batch):
        return [_stream(batch), b"", b""]
    return [batch.serialize(), batch.schema.serialize()] if is_first else [batch.serialize()]


def has_dictionary(batch: pa.RecordBatch) -> bool:
    """Whether values of a batch lie in dictionaries."""
    return any(_has_dictionary(kind) for kind in batch.schema.types)


def raise_rows(buffers: list[pa.Buffer], schema: pa.Schema | None) -> pa.RecordBatch:
    """Read a batch of a scan; `schema` is that of the batches before."""
    try:
        if len(buffers) == 3:
            batch = pa.ipc.open_stream(buffers[0]).read_next_batch()
        else:
            if len(buffers) == 2:
                schema = _read_schema(buffers[1].to_pybytes())
            batch = pa.ipc.read_record_batch(buffers[0], schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError, TypeError, IndexError) as error:
        raise BadMessage(f"a message holds no rows: {error}") from error
    return batch


def lower_array(array: pa.Array, buffers: list[Part]) -> list[Any]:
    return lower_batch(pa.RecordBatch.from_arrays([array], names=[""]), buffers)


def raise_array(buffers: list[pa.Buffer], at: int, body: int | None = None) -> pa.Array:
    return raise_batch(buffers, at, body).column(0)


def lower_type(kind: pa.DataType, buffers: list[Part]) -> list[Any]:
    name = _SIMPLE_NAMES.get(kind)
    if name is not None:
        return [name]
    buffers.append(pa.schema([pa.field("", kind)]).serialize())
    return [len(buffers) - 1]


def raise_type(buffers: list[pa.Buffer], given: str | int) -> pa.DataType:
    return _SIMPLE[given] if isinstance(given, str) else _read_schema(buffers[given].to_pybytes()).field(0).type


def lower_scalar(scalar: pa.Scalar, buffers: list[Part]) -> list[Any]:
    kind = scalar.type
    name = _SIMPLE_NAMES.get(kind)
    if name is not None:
        value = scalar.value if scalar.is_valid and pa.types.is_timestamp(kind) else scalar.as_py()
        if not isinstance(value, float) or value - value == 0:
            return [name, value]
    return lower_array(pa.array([scalar.as_py()], kind) if kind != pa.float64() else _one(scalar), buffers)


def raise_scalar(buffers: list[pa.Buffer], first: str | int, second: Any = None) -> pa.Scalar:
    if isinstance(first, str):
        return pa.scalar(second, _SIMPLE[first])
    return raise_array(buffers, first, second)[0]


def lower_numpy(array: npt.NDArray[Any], buffers: list[Part]) -> list[Any]:
    if array.dtype.kind not in _NUMBERS:
        raise TypeError(f"an array of {array.dtype} cannot be sent to another node")
    shape = [] if array.ndim == 1 else [list(array.shape)]
    buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return [len(buffers) - 1, array.dtype.str, *shape]


def raise_numpy(buffers: list[pa.Buffer], at: int, kind: str, shape: list[int] | None = None) -> npt.NDArray[Any]:
    dtype = np.dtype(kind)
    if dtype.kind not in _NUMBERS:
        raise BadMessage(f"an array of {dtype} cannot be sent to another node")
    found: npt.NDArray[Any] = np.frombuffer(buffers[at], dtype)
    if dtype.kind == "b" and found.view(np.uint8).max(initial=0) > 1:
        raise BadMessage("a truth value is neither 0 nor 1")
    return found if shape is None else found.reshape(shape)


def lower_expression(expression: pc.Expression, buffers: list[Part]) -> list[Any]:
    buffers.append(expression.__reduce__()[1][0])
    return [len(buffers) - 1]


def raise_expression(buffers: list[pa.Buffer], at: int) -> pc.Expression:
    # Arrow trusts what it reads, so it is read without Arrow first.
    _check_calls(decode_serialised(buffers[at]))
    return _restore_expression(buffers[at])


def _check_calls(node: Node) -> None:
    """Functions have as many arguments as they take, and options of their own type: Arrow does not look."""
    if not isinstance(node, Call):
        return
    function = pc.get_function(node.function)
    described = function._doc
    if node.options is None:
        has_options = not described.options_required
    else:
        has_options = node.options["_type_name"].as_py().decode() == described.options_class
    if not has_options or function.arity not in (Ellipsis, len(node.arguments)):
        raise BadMessage(f"the function {node.function} is called with other arguments or options than it takes")
    for each in node.arguments:
        _check_calls(each)


def lower_samples(samples: Samples, buffers: list[Part]) -> list[Any]:
    lowered = []
    for each in (samples.places, *samples.columns()):
        lowered.append(lower_numpy(pa.array(each).to_numpy(zero_copy_only=False), buffers))
    return lowered


def raise_samples(buffers: list[pa.Buffer], *parts: list[Any]) -> Samples:
    places, offsets, times, values = (raise_numpy(buffers, *part) for part in parts)
    _check_samples(places, offsets, times, values)
    ends = offsets.astype(np.int64, copy=False)
    stretches = SeriesStretches(
        pa.array(places), pa.array(offsets), pa.array(times[ends[:-1]]), pa.array(times[ends[1:] - 1])
    )
    chosen = pa.array(np.arange(int(places[-1]) + 1 if len(places) else 0, dtype=np.uint32))
    piece = SamplePiece(0, pa.array(times), pa.array(values))
    found = Samples.find([(stretches, piece)], chosen, -_INT64.max, _INT64.max, len(times) + 1)
    if found is None:
        raise BadMessage("samples have two values of one time")
    return found


def _check_samples(
    places: npt.NDArray[Any], offsets: npt.NDArray[Any], times: npt.NDArray[Any], values: npt.NDArray[Any]
) -> None:
    """Samples refer to one another by numbers, which a kernel trusts."""
    kinds = places.dtype == np.uint32 and offsets.dtype.kind in "iu" and times.dtype == np.int64
    if not kinds or values.dtype != np.float64 or len(offsets) != len(places) + 1 or len(values) != len(times):
        raise BadMessage("samples have columns of other types or lengths")
    is_sound = offsets[0] == 0 and offsets[-1] == len(times) and bool((offsets[1:] > offsets[:-1]).all())
    if not is_sound or not bool((places[1:] > places[:-1]).all()) or (len(places) and int(places[-1]) > 1 << 30):
        raise BadMessage("samples refer to places that they do not have")


def _one(scalar: pa.Scalar) -> pa.Array:
    return pa.array([scalar.as_py()], scalar.type)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
