"""Prometheus remote write: the message of a request into samples, and those into rows of tables.

    body ─ unpack ─▶ message ─ RemoteWriteReader ─▶ Samples ─ tables ─▶ rows of one table for each metric

Samples stay one column for all metrics: a writer that knows their series by number writes them as they are. Labels are
read only for unknown series, because reading them is expensive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.errors import BodyTooLarge, InvalidArguments
from tsdb.ingest.rows import NewTable, TableRows
from tsdb.memory import MemoryUse
from tsdb.model import HISTOGRAM_COLUMN
from tsdb.telemetry import gauge
from tsdb.units import Size

SERIES_MAX = 2_000_000
"""Maximum number of series in the cache of a reader, which is then cleared."""
SERIES_BYTES_MAX = Size.parse("512MiB")

VALUE_COLUMN = "tsdb_value"
NEW_TABLE = NewTable(time_unit="ms", value_column=VALUE_COLUMN, single_value=True)

Positions = npt.NDArray[np.int64]

_KNOWN_SERIES = gauge("tsdb_prometheus_known_series", "Series in the remote write cache.")

_PIECE_BYTES = 1 << 20
_LENGTH_BYTES_MAX = 5
_FIRST_BYTES_OF_OTHER = {1: (b"\x22", b"\x2a"), 2: (b"\x0a", b"\x1a")}
"""The tags of fields that only the other version has. Each reads the other as a request of nothing, so this is told."""
_sources = itertools.count()


def unpack(body: bytes, encoding: str | None, *, bytes_max: int) -> bytes:
    """Undo the compression of a body, by the rule of its sender; `bytes_max` bounds what comes out.

    Snappy blocks and zstd are tried in the order that the header suggests: senders are known to say one and send the
    other.
    """
    order = (_unpack_zstd, _unpack_snappy) if "zstd" in (encoding or "").lower() else (_unpack_snappy, _unpack_zstd)
    first_error: InvalidArguments | None = None
    for unpack_with in order:
        try:
            return unpack_with(body, bytes_max)
        except InvalidArguments as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def _unpack_snappy(body: bytes, bytes_max: int) -> bytes:
    length = _snappy_length(body)
    if length > bytes_max:
        # A length out of all proportion means that the bytes are no snappy block.
        if length > len(body) * _SNAPPY_RATIO_MAX:
            raise InvalidArguments("the body is not a snappy block: its length cannot be")
        raise BodyTooLarge(limit_bytes=bytes_max)
    try:
        unpacked: bytes = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    except OSError as error:
        raise InvalidArguments("the body is not a snappy block", hint="compress it with snappy, or zstd") from error
    return unpacked


_SNAPPY_RATIO_MAX = 32
"""A snappy block becomes at most about 21 times as long: 64 bytes for each copy of three."""


def _snappy_length(body: bytes) -> int:
    length = 0
    for at, byte in enumerate(body[:_LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return length
    raise InvalidArguments("the body is not a snappy block: it does not begin with a length")


def _unpack_zstd(body: bytes, bytes_max: int) -> bytes:
    if not body:
        raise InvalidArguments("the body is empty")
    unpacked = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            while piece := stream.read(_PIECE_BYTES):
                unpacked += piece
                if len(unpacked) > bytes_max:
                    raise BodyTooLarge(limit_bytes=bytes_max)
    except OSError as error:
        raise InvalidArguments("the body is not compressed with zstd") from error
    return bytes(unpacked)


class _Known(NamedTuple):
    """A parser with the series it knows, and the number that tells it from others."""

    parser: _kernels.RemoteWriteParser
    source: int


class RemoteWriteReader:
    """Reads requests and remembers their series. For any number of threads."""

    def __init__(
        self, *, is_strict: bool, series_max: int = SERIES_MAX, series_bytes_max: int = SERIES_BYTES_MAX
    ) -> None:
        self._is_strict = is_strict
        self._series_max = series_max
        self._full_bytes = self._bytes_max = series_bytes_max
        self._begin()

    def _begin(self) -> None:
        """Know no series. What is being read meanwhile is of those that were known."""
        parser = _kernels.RemoteWriteParser(
            is_strict=self._is_strict, series_max=self._series_max, bytes_max=self._full_bytes
        )
        self._known = _Known(parser, next(_sources))

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("remote_write_series", self._known.parser.size()[1], self._bytes_max)

    def limit_memory(self, share: float) -> None:
        self._bytes_max = int(self._full_bytes * share)
        self._begin_if_full(self._known)

    def _begin_if_full(self, known: _Known) -> None:
        if known is self._known and known.parser.size()[1] > self._bytes_max:
            self._begin()

    def read_packed(self, bodies: list[bytes], *, bytes_max: int) -> Samples | None:
        """Read bodies of version 1, snappy blocks, as if they were one: what they repeat, one may repeat as well.

        None if that cannot be: they are to be read one by one, and each told what is wrong with it.
        """
        known = self._known
        batch = known.parser.read(bodies, bytes_max=bytes_max)
        return None if batch is None else self._samples(batch, known)

    def read(self, message: bytes, *, version: int = 1) -> Samples:
        """Read the message of a request; InvalidArguments if it is malformed."""
        _check_version(message, version)
        known = self._known
        try:
            batch = known.parser.parse(message, version=version)
        except _kernels.MalformedInput as error:
            raise InvalidArguments(f"the request cannot be read: {error}") from None
        return self._samples(batch, known)

    def _samples(self, batch: _kernels.RemoteWriteBatch, known: _Known) -> Samples:
        series, nbytes = known.parser.size()
        _KNOWN_SERIES.set(series)
        if nbytes > self._bytes_max:
            self._begin_if_full(known)
        return Samples(batch, (known.source, batch.generation))


def _check_version(message: bytes, version: int) -> None:
    if message[:1] in _FIRST_BYTES_OF_OTHER[version]:
        raise InvalidArguments(
            f"the Content-Type says version {version}, but the request has version {3 - version}",
            hint="name the message in the Content-Type: proto=io.prometheus.write.v2.Request is version 2",
        )


@dataclass(frozen=True, slots=True)
class MetricRows:
    """Rows of one metric, and where they come from."""

    rows: TableRows
    positions: Positions
    """Of the series in their request; the tags of `rows` have them in this order."""


class Samples:
    """The samples of one request."""

    def __init__(self, batch: _kernels.RemoteWriteBatch, source: tuple[int, int]) -> None:
        self._batch = batch
        self.source = source
        """Numbers of series with the same source are of the same series."""
        numbers, index, times, values = batch.columns()
        self.numbers = np.frombuffer(numbers, np.uint32)
        """Of the distinct series."""
        self.index = np.frombuffer(index, np.uint32)
        """For each sample the position of its series in `numbers`."""
        self.times = np.frombuffer(times, np.int64)
        """In milliseconds."""
        self.values: pa.Array = pa.Array.from_buffers(pa.float64(), len(self.times), [None, pa.py_buffer(values)])
        """Null where the sample is a histogram."""
        self.histograms: pa.Array | None = None
        """For each sample its native histogram, null where it is a float; None if there is no histogram at all."""
        if len(batch.histograms):
            self._append_histograms()

    def _append_histograms(self) -> None:
        """Put the samples that are histograms behind those that are floats."""
        batch, floats = self._batch, len(self.times)
        found = pa.array(batch.histograms)
        self.index = np.concatenate([self.index, as_numpy(batch.histogram_index)])
        self.times = np.concatenate([self.times, as_numpy(batch.histogram_times)])
        self.values = pa.concat_arrays([self.values, pa.nulls(len(found), pa.float64())])
        self.histograms = pa.concat_arrays([pa.nulls(floats, pa.binary()), found])

    @property
    def histogram_count(self) -> int:
        return len(self._batch.histograms)

    def with_histograms(self) -> Positions:
        """Return the positions of the series that have histograms."""
        return np.unique(as_numpy(self._batch.histogram_index)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def metadata(self) -> list[tuple[str, int, str, str]]:
        """Name, number of the type, help and unit of metrics."""
        return self._batch.metadata

    def labels(self, positions: Positions) -> pa.Array:
        """Return the labels of series as texts in the form of the metric engine."""
        return pa.array(self._batch.describe(pa.array(positions))[3])

    def tables(self, positions: Positions | None = None) -> list[MetricRows]:
        """Return the samples of some series, or of all, as rows of one table for each metric."""
        if positions is None:
            positions = np.arange(len(self.numbers))
        if not len(positions):
            return []
        metrics, databases, physical, _ = (pa.array(each) for each in self._batch.describe(pa.array(positions)))
        groups = _group(metrics, databases, physical)
        places = self._places()
        tags = _Pivot(self._batch, positions, groups)
        rows_of = _Rows(self.index, positions, groups, len(self.numbers))
        found = []
        for number in range(groups.max() + 1):
            members, rows, index = rows_of.group(number)
            first = int(members[0])
            columns = tags.group(number, members)
            table = TableRows(
                table=metrics[first].as_py(),
                tags=columns,
                series_index=index,
                times=self.times[rows],
                unit="ms",
                fields=self.fields(rows, VALUE_COLUMN),
                columns=("", VALUE_COLUMN, *columns.schema.names),
                places=places[rows],
                database=databases[first].as_py(),
                physical_table=physical[first].as_py(),
            )
            found.append(MetricRows(table, positions[members]))
        return found

    def _places(self) -> Positions:
        places: Positions = as_numpy(self._batch.places)
        return places if self.histograms is None else np.concatenate([places, as_numpy(self._batch.histogram_places)])

    def fields(self, rows: Positions, value_column: str) -> dict[str, pa.Array]:
        """Return what some samples have: their values and, if one of them is a histogram, their histograms."""
        chosen = pa.array(rows)
        fields = {value_column: self.values.take(chosen)}
        if self.histograms is not None:
            histograms = self.histograms.take(chosen)
            if histograms.null_count < len(histograms):
                fields[HISTOGRAM_COLUMN] = histograms
        return fields


def _group(metrics: pa.Array, databases: pa.Array, physical: pa.Array) -> Positions:
    """Number the series by what they are rows of; numbers are in order of appearance."""
    codes = np.zeros(len(metrics), np.int64)
    for column in (metrics, databases, physical):
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + np.asarray(encoded.indices, np.int64)
        # Dense again, so that the product of three never overflows.
        dense = pa.array(codes).dictionary_encode()
        codes = np.asarray(dense.indices, np.int64)
    return codes


class _Rows:
    """The rows of each group of series."""

    def __init__(
        self, index: npt.NDArray[np.uint32], positions: Positions, groups: Positions, series_count: int
    ) -> None:
        self._members = _split(groups)
        place = np.full(series_count, -1, np.int64)
        place[positions] = np.arange(len(positions))
        self._local = np.empty(len(positions), np.uint32)
        for members in self._members:
            self._local[members] = np.arange(len(members), dtype=np.uint32)
        # For each sample its series among the chosen ones.
        self._chosen = place[index]
        group_of_row = np.where(self._chosen >= 0, groups[self._chosen], groups.max() + 1)
        self._rows = _split(group_of_row)

    def group(self, number: int) -> tuple[Positions, Positions, npt.NDArray[np.uint32]]:
        """Return the group's series, as places among the chosen, its rows, and for each row which of these series."""
        rows = self._rows[number]
        return self._members[number], rows, self._local[self._chosen[rows]]


def _split(codes: Positions) -> list[Positions]:
    """Return for each code where it is."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, codes.max() + 1)))


class _Pivot:
    """Labels as columns, for each group those that one of its series has, by name."""

    def __init__(self, batch: _kernels.RemoteWriteBatch, positions: Positions, groups: Positions) -> None:
        owners, names, self._values = (pa.array(each) for each in batch.label_pairs(pa.array(positions)))
        self._owners = np.asarray(owners, np.int64)
        encoded = names.dictionary_encode()
        rank = np.asarray(pc.rank(encoded.dictionary, tiebreaker="dense"), np.int64) - 1 if len(names) else np.empty(0)
        self._names = sorted(encoded.dictionary.to_pylist())
        self._codes = np.asarray(rank[np.asarray(encoded.indices)], np.int64)
        group = groups[self._owners]
        self._order = np.lexsort((self._codes, group))
        self._bounds = np.searchsorted(group[self._order], np.arange(groups.max() + 2))

    def group(self, number: int, members: Positions) -> pa.RecordBatch:
        pairs = self._order[self._bounds[number] : self._bounds[number + 1]]
        if not len(pairs):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(members), pa.struct([])))
        codes = self._codes[pairs]
        starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(pairs)]
        columns, names = [], []
        for start, stop in itertools.pairwise(starts):
            columns.append(self._spread(pairs[start:stop], members))
            names.append(self._names[int(codes[start])])
        return pa.RecordBatch.from_arrays(columns, names)

    def _spread(self, pairs: Positions, members: Positions) -> pa.Array:
        source = np.zeros(len(members), np.int64)
        is_absent = np.ones(len(members), np.bool_)
        at = np.searchsorted(members, self._owners[pairs])
        source[at] = pairs
        is_absent[at] = False
        return self._values.take(pa.array(source, mask=is_absent))
