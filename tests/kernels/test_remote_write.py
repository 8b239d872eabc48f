"""`RemoteWriteParser` against the library of Protocol Buffers, with everything that senders may get wrong."""

from __future__ import annotations

import re
import struct
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.prometheus_messages import messages, write_request, write_request_v2
from tsdb import _kernels
from tsdb.model import encode_labels

NAMES = st.sampled_from(["host", "job", "Zone", "_x", "le", "region", "a1"])
VALUES = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.sampled_from(["\x00", "a\x01\x02b", ""])
LABELS = st.dictionaries(NAMES, VALUES, max_size=5)
TIMES = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=64) | st.sampled_from([float("nan"), -0.0, float("inf")])
SERIES = st.tuples(st.sampled_from(["up", "cpu", "über"]), LABELS, st.lists(st.tuples(TIMES, FLOATS), max_size=3))
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def make_parser(*, is_strict: bool = True, series_max: int = 1000, bytes_max: int = 1 << 20) -> Any:
    return _kernels.RemoteWriteParser(is_strict=is_strict, series_max=series_max, bytes_max=bytes_max)


def bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def read_rows(batch: Any) -> list[tuple[str, dict[str, str], int, int]]:
    """Metric, labels, time and the bits of the value of each sample."""
    metrics = pa.array(batch.describe()[0]).to_pylist()
    count = len(metrics)
    owners, names, values = (pa.array(each).to_pylist() for each in batch.label_pairs(pa.array(np.arange(count))))
    labels: list[dict[str, str]] = [{} for _ in range(count)]
    for owner, name, value in zip(owners, names, values, strict=True):
        labels[owner][name] = value
    columns = (pa.array(each).to_pylist() for each in (batch.index, batch.times))
    raw = pa.array(batch.values).to_numpy().view(np.uint64).tolist()
    return [(metrics[at], labels[at], time, value) for at, time, value in zip(*columns, raw, strict=True)]


def expected_rows(series: list[tuple[str, dict[str, str], list[tuple[int, float]]]]) -> Any:
    return [(metric, labels, time, bits(value)) for metric, labels, rows in series for time, value in rows]


def as_sent(series: list[tuple[str, dict[str, str], list[tuple[int, float]]]]) -> Any:
    return [([("__name__", metric), *labels.items()], rows) for metric, labels, rows in series]


@settings(deadline=None)
@given(st.lists(SERIES, max_size=8), st.sampled_from([1, 2]))
def test_every_request_of_either_version_is_read_as_the_library_wrote_it(series: Any, version: int) -> None:
    make = write_request if version == 1 else write_request_v2
    body = make(as_sent(series)).SerializeToString()
    parser = make_parser()
    for _ in range(2):
        assert read_rows(parser.parse(body, version=version)) == expected_rows(series)


def snappy(body: bytes) -> bytes:
    packed: bytes = pa.compress(body, codec="snappy", asbytes=True)
    return packed


@settings(deadline=None)
@given(st.lists(st.lists(SERIES, max_size=4), min_size=1, max_size=4))
def test_packed_requests_are_read_as_one(requests: Any) -> None:
    bodies = [write_request(as_sent(series)).SerializeToString() for series in requests]
    batch = make_parser().read([snappy(body) for body in bodies], bytes_max=1 << 20)
    assert read_rows(batch) == [row for series in requests for row in expected_rows(series)]
    columns = (batch.series, batch.index, batch.times, batch.values)
    assert batch.columns() == tuple(pa.array(column).to_numpy().tobytes() for column in columns)


def test_what_is_no_request_of_version_one_in_snappy_is_left_to_others() -> None:
    good = write_request([([("__name__", "m")], [(1, 1.0)])]).SerializeToString()
    other = write_request_v2([([("__name__", "m")], [(1, 1.0)])]).SerializeToString()
    parser = make_parser()
    assert parser.read([snappy(good)], bytes_max=len(good)) is not None
    assert parser.read([snappy(good)], bytes_max=len(good) - 1) is None
    for wrong in (good, b"", snappy(good)[:-1], snappy(other), snappy(good + b"\x0a\x7f"), b"\xff\xff\xff\x7f" + good):
        assert parser.read([snappy(good), wrong], bytes_max=1 << 20) is None


def matching(message: bytes, at: int, offset: int) -> int:
    """Return how many bytes at a place, up to 64, repeat those an offset before it."""
    count = 0
    while count < 64 and at + count < len(message) and message[at + count] == message[at + count - offset]:
        count += 1
    return count


def pack_anyhow(message: bytes, data: Any) -> bytes:
    """Make a snappy block of literals and copies of every kind, as no compressor would."""
    packed = bytearray(varint(len(message)))
    at = 0
    while at < len(message):
        offset = data.draw(st.integers(1, at)) if at else 0
        count = matching(message, at, offset) if offset else 0
        count = data.draw(st.integers(min(1, count), count))
        kind = data.draw(st.integers(2, 3) if count < 4 or count > 11 else st.integers(1, 3)) if count else 0
        if kind == 1:
            packed += bytes([(offset >> 8) << 5 | (count - 4) << 2 | 1, offset & 0xFF])
        elif kind:
            packed += bytes([(count - 1) << 2 | kind]) + offset.to_bytes(2 if kind == 2 else 4, "little")
        else:
            count = data.draw(st.integers(1, min(len(message) - at, 100)))
            extra = data.draw(st.integers(0 if count <= 60 else 1, 4))
            head = [(59 + extra) << 2, *(count - 1).to_bytes(extra, "little")] if extra else [(count - 1) << 2]
            packed += bytes(head) + message[at : at + count]
        at += count
    return bytes(packed)


REPEATING = st.lists(SERIES, min_size=1, max_size=3).map(lambda series: series * 3)


@settings(deadline=None)
@given(REPEATING, st.data())
def test_a_block_of_any_literals_and_copies_is_unpacked(series: Any, data: Any) -> None:
    message = write_request(as_sent(series)).SerializeToString()
    block = pack_anyhow(message, data)
    assert pa.decompress(block, decompressed_size=len(message), codec="snappy", asbytes=True) == message
    # Another block before it, so that copies must not reach back into that.
    batch = make_parser().read([snappy(message), block], bytes_max=1 << 20)
    assert read_rows(batch) == expected_rows(series) * 2


@settings(deadline=None)
@given(REPEATING, st.data())
def test_a_block_with_a_wrong_byte_is_read_as_others_read_it_or_not_at_all(series: Any, data: Any) -> None:
    message = write_request(as_sent(series)).SerializeToString()
    block = bytearray(snappy(message))
    # Behind the length, so that what others unpack to is known.
    at = data.draw(st.integers(len(varint(len(message))), len(block) - 1))
    block[at] = data.draw(st.integers(0, 255))
    batch = make_parser(is_strict=False).read([bytes(block)], bytes_max=1 << 20)
    try:
        unpacked = pa.decompress(bytes(block), decompressed_size=len(message), codec="snappy", asbytes=True)
        expected = make_parser(is_strict=False).parse(unpacked, version=1)
    except (OSError, ValueError):
        assert batch is None
    else:
        # What begins as version 2 does is left to others.
        assert read_rows(batch) == read_rows(expected) if batch is not None else unpacked[:1] in (b"\x22", b"\x2a")


def test_a_copy_from_before_the_block_is_refused() -> None:
    good = write_request([([("__name__", "m")], [(1, 1.0)])]).SerializeToString()
    reaching = varint(len(good)) + bytes([(len(good) - 1) << 2 | 2, len(good), 0])
    assert make_parser().read([snappy(good), reaching], bytes_max=1 << 20) is None


@settings(deadline=None)
@given(LABELS)
def test_labels_are_encoded_as_the_metric_engine_does(labels: dict[str, str]) -> None:
    body = write_request([([("__name__", "m"), *labels.items()], [(1, 1.0)])]).SerializeToString()
    text = pa.array(make_parser().parse(body, version=1).describe()[3])
    assert text.equals(encode_labels({name: pa.array([value]) for name, value in labels.items()}, 1))


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([1, 2]))
def test_bytes_of_any_kind_are_read_or_refused(body: bytes, version: int) -> None:
    try:
        batch = make_parser().parse(body, version=version)
    except ValueError:
        return
    assert len(batch.times) == len(batch.index)


@settings(deadline=None)
@given(st.lists(SERIES, min_size=1, max_size=3), st.data(), st.sampled_from([1, 2]))
def test_a_changed_byte_never_breaks_the_reader(series: Any, data: Any, version: int) -> None:
    make = write_request if version == 1 else write_request_v2
    body = bytearray(make(as_sent(series)).SerializeToString())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    try:
        batch = make_parser(is_strict=False).parse(bytes(body), version=version)
    except ValueError:
        return
    assert len(batch.values) == len(batch.index)


def test_a_series_is_the_same_whatever_the_order_of_its_labels() -> None:
    labels = [("__name__", "m"), ("a", "1"), ("b", "2")]
    body = write_request([(labels, [(1, 1.0)]), (labels[::-1], [(2, 2.0)])]).SerializeToString()
    batch = make_parser().parse(body, version=1)
    assert len(batch.series) == 1
    assert pa.array(batch.index).to_pylist() == [0, 0]


def test_numbers_stay_the_same_from_request_to_request_and_between_versions() -> None:
    parser = make_parser()
    series = [([("__name__", "m"), ("a", str(number))], [(1, 1.0)]) for number in range(3)]
    first = pa.array(parser.parse(write_request(series).SerializeToString(), version=1).series).to_pylist()
    again = parser.parse(write_request_v2(series[::-1]).SerializeToString(), version=2)
    assert first == [0, 1, 2]
    assert pa.array(again.series).to_pylist() == [2, 1, 0]


def varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


PARTS = {
    "name": field(1, field(1, b"__name__") + field(2, b"m")),
    "a": field(1, field(1, b"a") + field(2, b"1")),
    "b": field(1, field(1, b"b") + field(2, b"2")),
    "long": field(1, field(1, b"c") + field(2, b"3" * 200)),
    "odd tag": b"\x8a\x00" + field(1, field(1, b"d") + field(2, b"4"))[1:],
    "odd length": b"\x0a\x86\x00" + field(1, b"e") + field(2, b"5"),
    "sample": field(2, b"\x09" + struct.pack("<d", 1.5) + b"\x10" + varint(1_700_000_000_000)),
    "early": field(2, b"\x09" + struct.pack("<d", 2.5) + b"\x10" + varint(2**64 - 5)),
    "time first": field(2, b"\x10\x07\x09" + struct.pack("<d", 3.5)),
    "no value": field(2, b"\x10\x09"),
    "exemplar": field(3, b"\x10\x01"),
}
ENTRIES = st.tuples(
    st.lists(st.sampled_from(list(PARTS)), max_size=6).map(lambda names: ["name", *names])
    | st.just(["name", "sample"]),
    st.integers(0, 3),
)


def entry_of(names: list[str], cut: int) -> bytes:
    """One series, of which the last bytes may be missing."""
    content = b"".join(PARTS[name] for name in names)
    return field(1, content[: len(content) - cut] if cut == 3 else content)


def answer(parser: Any, body: bytes) -> Any:
    try:
        return read_rows(parser.parse(body, version=1))
    except ValueError as error:
        return str(error)


@settings(deadline=None)
@given(st.lists(st.lists(ENTRIES, max_size=5), min_size=2, max_size=8))
def test_what_came_before_never_changes_how_a_request_is_read(requests: Any) -> None:
    parser = make_parser(is_strict=False)
    for entries in requests:
        body = b"".join(entry_of(*entry) for entry in entries)
        assert answer(parser, body) == answer(make_parser(is_strict=False), body)


def test_a_series_whose_labels_begin_like_those_of_the_expected_one_is_another() -> None:
    parser = make_parser()
    short, longer = ["name", "a"], ["name", "a", "b"]
    first = b"".join(entry_of([*names, "sample"], 0) for names in (["name"], short, ["name"]))
    second = b"".join(entry_of([*names, "sample"], 0) for names in (["name"], longer, ["name"], short))
    behind = b"".join(entry_of(names, 0) for names in (["name", "sample"], ["name", "a", "sample", "b"]))
    for _ in range(2):
        for body, labels in ((first, [{}, {"a": "1"}, {}]), (second, [{}, {"a": "1", "b": "2"}, {}, {"a": "1"}])):
            assert [row[1] for row in read_rows(parser.parse(body, version=1))] == labels
        assert [row[1] for row in read_rows(parser.parse(behind, version=1))] == [{}, {"a": "1", "b": "2"}]


def test_series_with_labels_of_any_length_are_found_again() -> None:
    parser = make_parser(bytes_max=1 << 30)
    labels = [{"a": f"{number}" * length} for number in range(3) for length in (1, 300, 100_000, 400_000)]
    bodies = [write_request([([("__name__", "m"), *each.items()], [(1, 1.0)])]).SerializeToString() for each in labels]
    for parts in (bodies, bodies[::-1], [b"".join(bodies)]):
        for part in parts:
            parser.parse(part, version=1)
    batch = parser.parse(b"".join(bodies), version=1)
    assert parser.size()[0] == len(labels)
    assert pa.array(batch.series).to_pylist() == list(range(len(labels)))
    assert [found for _, found, _, _ in read_rows(batch)] == labels


def test_labels_behind_samples_belong_to_their_series() -> None:
    first = write_request([([("__name__", "m")], [(1, 1.0)])]).timeseries[0].SerializeToString()
    second = write_request([([("a", "b" * 300)], [(2, 2.0)])]).timeseries[0].SerializeToString()
    whole = first + second
    body = b"\x0a" + bytes([len(whole) & 0x7F | 0x80, len(whole) >> 7]) + whole
    assert read_rows(make_parser().parse(body, version=1)) == [
        ("m", {"a": "b" * 300}, 1, bits(1.0)),
        ("m", {"a": "b" * 300}, 2, bits(2.0)),
    ]


def test_the_bits_of_values_are_kept() -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_DEAD_BEEF))[0]
    body = write_request([([("__name__", "m")], [(1, STALE), (2, odd), (3, -0.0)])]).SerializeToString()
    values = pa.array(make_parser().parse(body, version=1).values).to_numpy().view(np.uint64).tolist()
    assert values == [0x7FF0000000000002, 0xFFF80000DEADBEEF, 1 << 63]


def test_a_full_parser_begins_anew_in_another_generation() -> None:
    parser = make_parser(series_max=3)
    bodies = [
        write_request([([("__name__", "m"), ("a", str(number))], [(1, 1.0)])]).SerializeToString()
        for number in range(5)
    ]
    batches = [parser.parse(body, version=1) for body in bodies]
    assert [batch.generation for batch in batches] == [0, 0, 0, 1, 1]
    assert [pa.array(batch.series).to_pylist() for batch in batches] == [[0], [1], [2], [0], [1]]
    # What was read before is still described by what it was.
    assert read_rows(batches[0]) == [("m", {"a": "0"}, 1, bits(1.0))]
    assert parser.size()[0] == 2


def test_special_labels_choose_and_are_not_stored() -> None:
    labels = [("__name__", "m"), ("__database__", "d"), ("x_greptime_physical_table", "p"), ("a", "1")]
    batch = make_parser().parse(write_request([(labels, [(1, 1.0)])]).SerializeToString(), version=1)
    metrics, databases, physical, texts = (pa.array(each).to_pylist() for each in batch.describe())
    assert (metrics, databases, physical, texts) == (["m"], ["d"], ["p"], ["a\x011\x00"])


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ([("a", "1")], "it has no metric: the label __name__ is missing or empty"),
        ([("__name__", "")], "it has no metric: the label __name__ is missing or empty"),
        ([("__name__", "m"), ("a-b", "1")], 'the label name "a-b" is not of the form [a-zA-Z_][a-zA-Z0-9_]*'),
        ([("__name__", "m"), ("1a", "1")], 'the label name "1a" is not of the form [a-zA-Z_][a-zA-Z0-9_]*'),
        ([("__name__", "m"), ("", "1")], 'the label name "" is not of the form [a-zA-Z_][a-zA-Z0-9_]*'),
        ([("__name__", "m"), ("a", "1"), ("a", "2")], 'it has the label "a" twice'),
        ([("__name__", "m"), ("a", b"x\xff")], 'the value of the label "a" is not UTF-8 from its byte 1 on'),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_wrong_series_is_named_with_what_is_wrong(labels: Any, problem: str, version: int) -> None:
    make = write_request if version == 1 else write_request_v2
    body = make([([("__name__", "fine")], [(1, 1.0)]), (labels, [(1, 1.0)])]).SerializeToString()
    with pytest.raises(ValueError, match=f"^{re.escape(f'series 1: {problem}')}$"):
        make_parser().parse(body, version=version)


def test_a_lossy_parser_replaces_what_is_not_utf8() -> None:
    body = write_request([([("__name__", b"m\xff"), ("a", b"\xc3")], [(1, 1.0)])]).SerializeToString()
    assert read_rows(make_parser(is_strict=False).parse(body, version=1)) == [("m�", {"a": "�"}, 1, bits(1.0))]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda request: request.symbols.__setitem__(0, b"x"), "the first symbol is not the empty string"),
        (lambda request: request.timeseries[0].labels_refs.append(9), "series 0: it has 3 references, an odd number"),
        (
            lambda request: request.timeseries[0].labels_refs.__setitem__(1, 9),
            "series 0: it names the symbol 9, there are 3",
        ),
        (
            lambda request: request.timeseries[0].histograms.add(),
            "series 0: it has both samples and native histograms",
        ),
    ],
)
def test_version_2_has_rules_of_its_own(change: Any, problem: str) -> None:
    request = write_request_v2([([("__name__", "m")], [(1, 1.0)])])
    change(request)
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        make_parser().parse(request.SerializeToString(), version=2)


def test_metadata_of_both_versions_is_collected() -> None:
    first = write_request([])
    first.metadata.add(type=1, family=b"requests", help=b"How many.", unit=b"1")
    second = write_request_v2([([("__name__", "size")], [(1, 1.0)])])
    second.symbols.extend([b"How large.", b"bytes"])
    second.timeseries[0].metadata.type, second.timeseries[0].metadata.help = 2, 3
    second.timeseries[0].metadata.unit = 4
    parser = make_parser()
    assert parser.parse(first.SerializeToString(), version=1).metadata == [("requests", 1, "How many.", "1")]
    assert parser.parse(second.SerializeToString(), version=2).metadata == [("size", 2, "How large.", "bytes")]


def make_histogram() -> Any:
    histogram = messages["Histogram"](count_int=5, sum=1.5, schema=-3, zero_threshold=0.25, timestamp=7, reset_hint=1)
    histogram.positive_spans.add(offset=-2, length=2)
    histogram.positive_deltas.extend([3, -1])
    return histogram


def test_native_histograms_have_one_canonical_form() -> None:
    request = write_request([([("__name__", "h")], [])])
    request.timeseries[0].histograms.append(make_histogram())
    batch = make_parser().parse(request.SerializeToString(), version=1)
    assert pa.array(batch.histogram_times).to_pylist() == [7]
    assert pa.array(batch.histogram_index).to_pylist() == [0]
    assert pa.array(batch.histograms).to_pylist() == [
        struct.pack("<4Bi2d2Q", 1, 0, 1, 0, -3, 0.25, 1.5, 5, 0)
        + struct.pack("<IiIIqq", 1, -2, 2, 2, 3, -1)
        + struct.pack("<II", 0, 0)
        + struct.pack("<I", 0)
    ]


def test_a_native_histogram_whose_buckets_do_not_fit_its_spans_is_refused() -> None:
    request = write_request([([("__name__", "h")], [])])
    histogram = make_histogram()
    histogram.positive_deltas.append(1)
    request.timeseries[0].histograms.append(histogram)
    with pytest.raises(ValueError, match="the positive spans of a native histogram promise 2 buckets, there are 3"):
        make_parser().parse(request.SerializeToString(), version=1)


def test_many_threads_give_every_series_one_number() -> None:
    parser = make_parser(series_max=10_000, bytes_max=1 << 24)
    series = [([("__name__", "m"), ("a", str(number))], [(number, 1.0)]) for number in range(500)]
    bodies = [write_request(series[at:] + series[:at]).SerializeToString() for at in (0, 100, 200, 300)]
    found: list[dict[int, int]] = []

    def read(body: bytes) -> None:
        for _ in range(20):
            batch = parser.parse(body, version=1)
            numbers = pa.array(batch.series).to_pylist()
            found.append(dict(zip(pa.array(batch.times).to_pylist(), numbers, strict=True)))

    threads = [threading.Thread(target=read, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == found[0] for each in found)
    assert sorted(found[0].values()) == list(range(500))
