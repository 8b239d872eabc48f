"""Batches as log entries: the series and the rows, as Arrow record batches and plain columns of integers.

    u32 × 8: bytes of tags schema, tags, fields schema, fields; number of series, rows; forms of the tags, the fields
    tags schema │ tags │ fields schema │ fields │ tsid u64[] │ check u64[] │ times i64[] │ series index u32[] │ padding

Schemas are encoded once and kept, and the record batch of the tags is taken as it is, so that an entry costs little
more than its buffers. Late tags are packed by their keeper (`TagPacker`): each value once, and a small number per
series; some keepers make the whole entry in one step (`EntrySealer`).
A single field of floats without nulls is its values, and nothing more.
Columns are named by their id, so that an entry survives renaming, and carry their type, so that it survives widening;
the schema version of its frame says which columns existed when it was written. Every part begins at a multiple of
8 bytes.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.log import (
    COMPRESS_BYTES_MIN,
    Codec,
    EncodedPayload,
    FrameKind,
    decode_payload,
    encode_frame_payload,
    is_intact,
    sealed_payload,
)
from tsdb.errors import InvalidArguments
from tsdb.model import Batch, ColumnId, LateTags, OpType, RegionSchema, Semantic, SeriesTable, TagKeeper, make_tags
from tsdb.weighted_cache import WeightedCache

_LENGTHS = struct.Struct("<8I")
SCHEMAS_BYTES_MAX = 32 << 20
"""What the schemas take that are kept for writing, and as much for reading; one of 10,000 columns takes 3.5 MB."""
_COLUMN_BYTES = 350
"""What a column takes in a schema, its encoded form and the key: measured with 10,000 columns."""
_RECORD_BATCH, _PACKED, _PLAIN = 0, 1, 2
"""Forms of the tags and of the fields."""
_FLOAT64 = pa.float64()
_PACKED_COLUMN = struct.Struct("<4I")
_CODES: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}

_RATIO_MAX = 256
"""LZ4 makes no more bytes than this of one; what claims to be larger would only take memory."""

FRAME_KINDS = {OpType.PUT: FrameKind.DATA, OpType.DELETE: FrameKind.DELETE}

_Named = tuple[tuple[int, pa.DataType], ...]


class TagPacker(TagKeeper):
    """Keeps tags, and can encode them as an entry holds them."""

    @abstractmethod
    def pack_tags(self, numbers: npt.NDArray[np.uint32]) -> bytes | pa.Buffer:
        """Return the tags of some numbers in the form that `unpack_tags` reads."""


class EntrySealer(TagKeeper):
    """Keeps tags, and can make whole entries of rows."""

    @abstractmethod
    def seal(
        self,
        numbers: npt.NDArray[np.uint32],
        headers: tuple[bytes, bytes],
        fields: memoryview,
        fields_form: int,
        times: memoryview,
        index: memoryview,
        *,
        compress_from: int,
    ) -> tuple[bytes, int, bool, int]:
        """Return what is to be stored, its checksum, whether it is compressed, and its length when it is not.

        `headers` are the encoded schemas of tags and fields; entries of `compress_from` bytes are compressed.
        """


def encode_batch(schema: RegionSchema, batch: Batch) -> EncodedPayload:
    """Make the payload of a log entry; runs in the thread of the request."""
    _, tags_header = _schema(tuple((tag.id, tag.type) for tag in schema.tags))
    columns = [schema.by_name[name] for name in batch.fields]
    fields_schema, fields_header = _schema(tuple((column.id, column.type) for column in columns))
    fields_form, fields = _encode_fields(list(batch.fields.values()), fields_schema)
    late = batch.series.late
    if late is not None and isinstance(late.keeper, EntrySealer):
        return sealed_payload(
            late.keeper.seal(
                late.numbers,
                (tags_header, fields_header),
                fields,
                fields_form,
                _bytes(batch.times),
                _bytes(batch.series_index),
                compress_from=COMPRESS_BYTES_MIN,
            )
        )
    tags_form, tags = _encode_tags(batch.series)
    sizes = len(tags_header), len(tags), len(fields_header), len(fields)
    lengths = _LENGTHS.pack(*sizes, len(batch.series), batch.rows, tags_form, fields_form)
    series, index = batch.series, batch.series_index
    parts = [lengths, tags_header, tags, fields_header, fields]
    parts += [_bytes(series.tsid), _bytes(series.check), _bytes(batch.times), _bytes(index), bytes(-4 * len(index) % 8)]
    return encode_frame_payload(parts)


def _encode_tags(series: SeriesTable) -> tuple[int, memoryview]:
    late = series.late
    if late is None or not isinstance(late.keeper, TagPacker):
        return _RECORD_BATCH, _view(series.read_tags().serialize())
    return _PACKED, _view(late.keeper.pack_tags(late.numbers))


def _encode_fields(columns: Sequence[pa.Array], schema: pa.Schema) -> tuple[int, memoryview]:
    if len(columns) == 1 and columns[0].type == _FLOAT64 and not columns[0].null_count:
        return _PLAIN, _bytes(columns[0].to_numpy())
    return _RECORD_BATCH, _view(pa.RecordBatch.from_arrays(columns, schema=schema).serialize())


def decode_batch(schema: RegionSchema, payload: pa.Buffer, kind: FrameKind, *, version: int) -> Batch:
    """Read an entry, written under a schema version, as a batch of the schema given.

    Columns that are gone since are left out; hashes of tags that may have been renamed since are computed again.
    """
    *lengths, series_count, row_count, tags_form, fields_form = _LENGTHS.unpack(
        payload.slice(0, _LENGTHS.size).to_pybytes()
    )
    parts, start = [], _LENGTHS.size
    for length in lengths:
        parts.append(payload.slice(start, length))
        start += length
    tags_header, tags, fields_header, fields = parts
    after_hashes = start + 16 * series_count
    tsid = np.frombuffer(payload, np.uint64, series_count, start)
    check = np.frombuffer(payload, np.uint64, series_count, start + 8 * series_count)
    times = np.frombuffer(payload, np.int64, row_count, after_hashes)
    index = np.frombuffer(payload, np.uint32, row_count, after_hashes + 8 * row_count)
    if tags_form == _PACKED:
        packed = _named_tags(tags, tags_header, series_count)
        late = LateTags(schema.arrow_tags, np.arange(series_count, dtype=np.uint32), PackedTags(schema, packed))
        table = SeriesTable(tsid, check, late)
    else:
        known = _columns(tags, tags_header)
        columns = [
            _as(known[tag.id], tag.type) if tag.id in known else pa.nulls(series_count, tag.type) for tag in schema.tags
        ]
        table = SeriesTable(tsid, check, make_tags(columns, [tag.name for tag in schema.tags], series_count))
    if version != schema.version:
        table = SeriesTable.of_tags(schema, table.read_tags().columns, series_count)
    values = {
        schema.by_id[column].name: _as(array, schema.by_id[column].type)
        for column, array in _read_fields(fields, fields_header, fields_form, row_count).items()
        if column in schema.by_id
    }
    op = OpType.DELETE if kind is FrameKind.DELETE else OpType.PUT
    return Batch(table, index, times, values, op)


def receive_payload(stored: bytes, *, crc: int, codec: int, raw_bytes: int) -> EncodedPayload:
    """Return a payload that was sent by another node, as it was encoded there; InvalidArguments if it is not one."""
    try:
        return EncodedPayload(stored, len(stored), crc, Codec(codec), raw_bytes)
    except ValueError as error:
        raise InvalidArguments(f"the rows cannot be read: {error}") from error


def open_payload(
    schema: RegionSchema, payload: EncodedPayload, kind: FrameKind, *, rows: int, version: int | None = None
) -> Batch:
    """Read an entry that another node has encoded under this schema; InvalidArguments if it is not one.

    `version` is the one of the schema that it was encoded under, if that is another.

    What it holds is checked in full: rows of the log are trusted by everything that reads them.
    """
    if not is_intact(payload) or payload.raw_bytes > _RATIO_MAX * (payload.size_bytes + 1):
        raise InvalidArguments("the rows were damaged in transit", expected_crc=payload.crc)
    try:
        raw = decode_payload(pa.py_buffer(payload.stored), codec=payload.codec, raw_bytes=payload.raw_bytes)
        batch = decode_batch(schema, raw, kind, version=schema.version if version is None else version)
        _validate_tags(batch.series)
        for column in batch.fields.values():
            column.validate(full=True)
    except Exception as error:  # whatever bytes can bring about
        raise InvalidArguments(f"the rows cannot be read: {error}") from error
    if batch.rows != rows:
        raise InvalidArguments("the entry has another number of rows", expected=rows, received=batch.rows)
    return batch


def _validate_tags(series: SeriesTable) -> None:
    late = series.late
    if late is None:
        series.read_tags().validate(full=True)
    else:
        assert isinstance(late.keeper, PackedTags)
        late.keeper.validate()


def check_batch(schema: RegionSchema, batch: Batch) -> None:
    """Refuse a batch that does not fit its region, before it changes anything."""
    _check_series(schema, batch)
    if batch.op is OpType.DELETE and batch.fields:
        raise InvalidArguments("a delete names keys and has no fields", columns=list(batch.fields))
    for name, values in batch.fields.items():
        column = schema.by_name.get(name)
        if column is None or column.semantic is not Semantic.FIELD:
            raise InvalidArguments("the region has no such field", column=name)
        if values.type != column.type:
            raise InvalidArguments(
                "the column has another type", column=name, expected=str(column.type), received=str(values.type)
            )
        if not column.nullable and values.null_count:
            raise InvalidArguments("the column may not be null", column=name)
    if batch.op is OpType.PUT:
        for column in schema.fields:
            if not column.nullable and column.name not in batch.fields:
                raise InvalidArguments("the column may not be null and is missing", column=column.name)


def _check_series(schema: RegionSchema, batch: Batch) -> None:
    received = batch.series.tags_schema
    if not received.equals(schema.arrow_tags):
        names = [tag.name for tag in schema.tags]
        if received.names != names:
            raise InvalidArguments("the batch has other tags than the region", expected=names, received=received.names)
        for tag, kind in zip(schema.tags, received.types, strict=True):
            if kind != tag.type:
                raise InvalidArguments(
                    "the column has another type", column=tag.name, expected=str(tag.type), received=str(kind)
                )
    if batch.rows and int(np.maximum.reduce(batch.series_index)) >= len(batch.series):
        raise InvalidArguments(
            "a row names a series that the batch does not have",
            series=len(batch.series),
            received=int(batch.series_index.max()),
        )


def _make_schema(columns: _Named) -> tuple[pa.Schema, bytes]:
    """Return the schema of columns that are named by their id, and its encoded form."""
    schema = pa.schema([pa.field(str(column), kind) for column, kind in columns])
    encoded = schema.serialize().to_pybytes()
    return schema, encoded + bytes(-len(encoded) % 8)


def _read_schema(encoded: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(encoded))


_schema = WeightedCache(
    _make_schema,
    weigh=lambda columns, _: _COLUMN_BYTES * (1 + len(columns)),
    weight_max=SCHEMAS_BYTES_MAX,
    owner="log_schemas",
)
_parse_schema = WeightedCache(
    _read_schema,
    weigh=lambda _, schema: _COLUMN_BYTES * (1 + len(schema)),
    weight_max=SCHEMAS_BYTES_MAX,
    owner="log_schemas",
)


def _columns(encoded: pa.Buffer, header: pa.Buffer) -> dict[ColumnId, pa.Array]:
    """Read a record batch, its columns by their ids."""
    schema = _parse_schema(header.to_pybytes())
    if not schema.names:
        return {}
    batch = pa.ipc.read_record_batch(encoded, schema)
    return {ColumnId(int(name)): column for name, column in zip(schema.names, batch.columns, strict=True)}


def _read_fields(encoded: pa.Buffer, header: pa.Buffer, form: int, rows: int) -> dict[ColumnId, pa.Array]:
    if form != _PLAIN:
        return _columns(encoded, header)
    (name,) = _parse_schema(header.to_pybytes()).names
    return {ColumnId(int(name)): pa.Array.from_buffers(_FLOAT64, rows, [None, encoded])}


def _named_tags(packed: pa.Buffer, header: pa.Buffer, rows: int) -> dict[ColumnId, PackedTag]:
    names = _parse_schema(header.to_pybytes()).names
    columns = unpack_columns(packed, columns=len(names), rows=rows)
    return {ColumnId(int(name)): column for name, column in zip(names, columns, strict=True)}


class PackedTag(NamedTuple):
    """A tag of some series: its distinct values, and for each series the number of one."""

    values: pa.StringArray
    codes: npt.NDArray[np.unsignedinteger[Any]]
    """The greatest number that the type has is null."""

    def take(self, numbers: npt.NDArray[np.uint32]) -> pa.Array:
        """Return the values of some series."""
        codes = self.codes[numbers]
        return self.values.take(pa.array(codes, mask=codes == np.iinfo(codes.dtype).max))

    def validate(self) -> None:
        """Raise ArrowInvalid, or ValueError, if something in it points elsewhere."""
        self.values.validate(full=True)
        codes = self.codes
        if bool(((codes >= len(self.values)) & (codes != np.iinfo(codes.dtype).max)).any()):
            raise ValueError("a series has a value that the entry does not have")


class PackedTags(TagKeeper):
    """The tags of an entry, as they lie in it: mostly series are known, and nobody reads them again."""

    def __init__(self, schema: RegionSchema, columns: Mapping[ColumnId, PackedTag]) -> None:
        self._schema = schema
        self._columns = columns

    def read_tags(self, numbers: npt.NDArray[np.uint32]) -> pa.RecordBatch:
        columns = [
            _as(self._columns[tag.id].take(numbers), tag.type)
            if tag.id in self._columns
            else pa.nulls(len(numbers), tag.type)
            for tag in self._schema.tags
        ]
        return make_tags(columns, [tag.name for tag in self._schema.tags], len(numbers))

    def validate(self) -> None:
        for column in self._columns.values():
            column.validate()


def unpack_columns(packed: pa.Buffer, *, columns: int, rows: int) -> list[PackedTag]:
    """Read tags that are packed; nothing is copied."""
    found, at = [], 0
    for _ in range(columns):
        count, text_bytes, width, _ = _PACKED_COLUMN.unpack(packed.slice(at, _PACKED_COLUMN.size).to_pybytes())
        offsets_at = at + _PACKED_COLUMN.size
        text_at = offsets_at + _padded(4 * (count + 1))
        codes_at = text_at + _padded(text_bytes)
        at = codes_at + _padded(width * rows)
        offsets, text = packed.slice(offsets_at, 4 * (count + 1)), packed.slice(text_at, text_bytes)
        codes = np.frombuffer(packed, _CODES[width], rows, codes_at)
        found.append(PackedTag(pa.StringArray.from_buffers(count, offsets, text), codes))
    return found


def _padded(size: int) -> int:
    return (size + 7) & -8


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _bytes(values: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).data.cast("B")


def _view(data: bytes | pa.Buffer) -> memoryview:
    return memoryview(data).cast("B")
