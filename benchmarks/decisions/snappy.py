"""Snappy blocks of remote write: unpacked and parsed in one kernel call, and unpacked by Arrow before parsing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from benchmarks import Measurement, measure
from benchmarks.ingest.remote_write import BYTES_MAX, SAMPLES, make_bodies
from tsdb.ingest.prometheus import RemoteWriteReader, unpack

BODIES = 30


def main() -> Iterator[Measurement]:
    bodies = make_bodies(0, BODIES)
    messages = [unpack(body, "snappy", bytes_max=BYTES_MAX) for body in bodies]
    packed, plain = sum(map(len, bodies)), sum(map(len, messages))
    print(f"  {packed:,} bytes packed, {plain:,} unpacked, zstd would make {_zstd_bytes(messages):,}")
    reader, amount = RemoteWriteReader(is_strict=True), SAMPLES * BODIES
    reader.read_packed(bodies, bytes_max=BYTES_MAX)

    def in_two_steps() -> None:
        for body in bodies:
            reader.read(unpack(body, "snappy", bytes_max=BYTES_MAX))

    def in_one_call() -> None:
        for body in bodies:
            assert reader.read_packed([body], bytes_max=BYTES_MAX) is not None

    def unpack_all() -> None:
        for body in bodies:
            unpack(body, "snappy", bytes_max=BYTES_MAX)

    yield measure("unpack, Arrow", unpack_all, amount=plain, unit="bytes")
    yield measure("unpack with Arrow, then parse", in_two_steps, amount=amount, unit="samples")
    yield measure("unpack and parse in the kernel", in_one_call, amount=amount, unit="samples")


def _zstd_bytes(messages: list[bytes]) -> int:
    return sum(len(pa.Codec("zstd", 1).compress(message, asbytes=True)) for message in messages)
