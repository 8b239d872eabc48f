"""Record batches to FlightData and back, and what a stranger may send instead."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.errors import InvalidArguments
from tsdb.ingest.protobuf import encode_varint
from tsdb.servers.grpc.flight import _codec, _ipc
from tsdb.servers.grpc.flight._codec import StreamDecoder, encode_stream
from tsdb.servers.grpc.flight._ipc import Header, header_kind
from tsdb.servers.grpc.flight._wire import (
    FlightMessage,
    MalformedMessage,
    encode_flight_data,
    parse_flight_data,
    read_varint,
)
from tsdb.servers.grpc.flight.flight_pb2 import FlightData as FlightDataMessage
from tsdb.servers.grpc.flight.flight_pb2 import FlightDescriptor

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.none() | st.integers(-(2**63), 2**63 - 1),
    "f": st.none() | st.floats(allow_nan=False),
    "s": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    "b": st.none() | st.booleans(),
    "y": st.none() | st.binary(),
}
SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("y", pa.binary())])
ROWS = st.lists(st.fixed_dictionaries(COLUMNS), max_size=40)


def decode(messages: list[bytes], **options: Any) -> pa.Table:
    first, *rest = [parse_flight_data(each) for each in messages]
    decoder = StreamDecoder(first.header, **options)
    batches = [decoder.decode(each) for each in rest]
    return pa.Table.from_batches([each for each in batches if each is not None], decoder.schema)


@given(st.lists(ROWS, max_size=4), st.sampled_from([None, "lz4", "zstd"]))
@settings(max_examples=60, deadline=None)
def test_batches_come_back_as_they_were(pieces: list[list[dict[str, Any]]], compression: Any) -> None:
    batches = [pa.RecordBatch.from_pylist(rows, SCHEMA) for rows in pieces]
    decoded = decode(list(encode_stream(SCHEMA, batches, compression)))
    assert decoded.to_pylist() == [row for rows in pieces for row in rows]


@given(st.integers(0, 2**63 - 1))
def test_numbers_come_back_as_they_were(number: int) -> None:
    raw = memoryview(encode_varint(number))
    assert read_varint(raw, 0) == (number, len(raw))


@given(
    st.binary(max_size=50), st.binary(max_size=50), st.binary(max_size=300), st.lists(st.text(max_size=5), max_size=3)
)
def test_the_message_is_the_one_that_protobuf_reads_and_writes(
    header: bytes, metadata: bytes, body: bytes, path: list[str]
) -> None:
    descriptor = FlightDescriptor(type=FlightDescriptor.PATH, path=path)
    ours = encode_flight_data(
        [header], [body] if body else [], metadata=metadata, descriptor=descriptor.SerializeToString()
    )
    theirs = FlightDataMessage.FromString(ours)
    assert (theirs.data_header, theirs.app_metadata, theirs.data_body) == (header, metadata, body)
    assert theirs.flight_descriptor == descriptor
    found = parse_flight_data(theirs.SerializeToString())
    assert (bytes(found.header), bytes(found.metadata), bytes(found.body)) == (header, metadata, body)


def test_a_large_batch_is_cut_and_small_ones_are_sent_together() -> None:
    wide = pa.record_batch({"s": ["x" * 1000] * 20_000})
    sizes = [len(each) for each in encode_stream(wide.schema, [wide])]
    assert len(sizes) > 5
    assert max(sizes) < 4 << 20
    narrow = [pa.record_batch({"s": ["x"]}) for _ in range(1000)]
    assert len(list(encode_stream(narrow[0].schema, narrow))) == 2


def test_a_row_that_is_large_among_small_ones_does_not_make_a_large_message_of_all() -> None:
    skewed = pa.record_batch({"s": ["x" * 3_000_000] * 3 + ["y"] * 100_000})
    messages = list(encode_stream(skewed.schema, [skewed]))
    assert max(map(len, messages)) < 4 << 20
    assert decode(messages).num_rows == 100_003


def test_dictionaries_are_sent_and_read_and_may_change_between_batches() -> None:
    batches = [pa.record_batch({"s": pa.array(names).dictionary_encode()}) for names in (["a", "b", "a"], ["c", None])]
    encoder = _codec.StreamEncoder(batches[0].schema)
    messages = [encoder.encode_schema(), *(each for batch in batches for each in encoder.encode(batch))]
    kinds = [header_kind(parse_flight_data(each).header) for each in messages]
    assert kinds == [Header.SCHEMA, Header.DICTIONARY, Header.BATCH, Header.DICTIONARY, Header.BATCH]
    decoded = decode(messages)
    assert decoded.schema.field("s").type == pa.string()
    assert decoded.column("s").to_pylist() == ["a", "b", "a", "c", None]


def messages_of(batch: pa.RecordBatch, compression: Any = None) -> list[bytes]:
    return list(encode_stream(batch.schema, [batch], compression))


def test_a_compressed_buffer_that_claims_to_be_huge_is_refused_before_it_is_unpacked() -> None:
    schema, batch = messages_of(pa.record_batch({"i": [7] * 1000}), "lz4")
    claimed = (8000).to_bytes(8, "little")
    assert batch.count(claimed) >= 1
    bomb = batch.replace(claimed, (1 << 40).to_bytes(8, "little"))
    with pytest.raises(MalformedMessage, match="unpacks to more than"):
        decode([schema, bomb])


def test_a_column_without_buffers_that_claims_to_be_huge_is_refused() -> None:
    schema, batch = messages_of(pa.record_batch({"n": pa.nulls(123_457)}))
    bomb = batch.replace((123_457).to_bytes(8, "little"), (1 << 60).to_bytes(8, "little"))
    with pytest.raises(MalformedMessage, match="at most 16777216 rows"):
        decode([schema, bomb])


def test_a_dictionary_that_would_unfold_to_gigabytes_is_refused() -> None:
    indices = pa.array([0] * 1000, pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 5000]))
    with pytest.raises(MalformedMessage, match="holds more than"):
        decode(messages_of(pa.record_batch({"s": column})), unpacked_bytes_max=1 << 20)


def test_offsets_that_point_outside_their_buffer_are_refused() -> None:
    schema, batch = messages_of(pa.record_batch({"s": ["abc", "def"]}))
    at = batch.index(b"\0\0\0\0\3\0\0\0\6\0\0\0")
    with pytest.raises(MalformedMessage, match="cannot be read"):
        decode([schema, batch[: at + 8] + (1 << 30).to_bytes(4, "little") + batch[at + 12 :]])


def test_text_that_is_not_utf8_is_refused() -> None:
    schema, batch = messages_of(pa.record_batch({"s": ["abc", "def"]}))
    with pytest.raises(MalformedMessage, match="cannot be read"):
        decode([schema, batch.replace(b"abcdef", b"ab\xff\xfeef")])


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([b""], "begins with its schema"),
        ([b"\x12\x04\xff\xff\xff\xff"], "points outside itself|cut off"),
        ([b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"], "does not end"),
        ([b"\x12\x64ab"], "longer than the message"),
        ([b"\x13"], "unknown wire type"),
    ],
)
def test_what_is_no_stream_is_refused(messages: list[bytes], words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        decode(messages)


def test_a_batch_before_its_schema_and_a_second_schema_are_refused() -> None:
    schema, batch = messages_of(pa.record_batch({"i": [1]}))
    with pytest.raises(MalformedMessage, match="begins with its schema"):
        decode([batch])
    with pytest.raises(MalformedMessage, match="record batches and their dictionaries"):
        decode([schema, schema])


def test_a_name_that_is_not_utf8_is_refused() -> None:
    schema, batch = messages_of(pa.record_batch({"column": [1]}))
    with pytest.raises(MalformedMessage, match="not UTF-8"):
        decode([schema.replace(b"column", b"col\xffmn"), batch])


def test_streams_with_changed_bytes_are_read_or_refused_and_nothing_else() -> None:
    seed = random.Random(20240229)
    base = messages_of(
        pa.record_batch(
            {"s": ["a", None, "ccc"] * 5, "i": list(range(15)), "d": pa.array(["x", "y", None] * 5).dictionary_encode()}
        ),
        "lz4",
    )
    outcomes = {"read": 0, "refused": 0}
    for _ in range(2000):
        messages = list(base)
        at = seed.randrange(len(messages))
        changed = bytearray(messages[at])
        for _ in range(seed.randrange(1, 6)):
            changed[seed.randrange(len(changed))] = seed.randrange(256)
        messages[at] = bytes(changed[: seed.randrange(1, len(changed) + 1)] if seed.random() < 0.2 else changed)
        try:
            decode(messages).validate(full=True)
            outcomes["read"] += 1
        except InvalidArguments:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0


def test_the_size_of_a_body_must_be_the_one_that_was_sent() -> None:
    schema, batch = (parse_flight_data(each) for each in messages_of(pa.record_batch({"i": [1, 2, 3]})))
    decoder = StreamDecoder(schema.header)
    with pytest.raises(MalformedMessage, match="not as long as"):
        decoder.decode(FlightMessage(batch.descriptor, batch.header, batch.metadata, batch.body[:8]))
    assert _ipc.body_size(batch.header) == len(batch.body)
