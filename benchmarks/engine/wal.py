"""How fast the write-ahead log takes, verifies and returns rows.

Frames hold 1,000 rows with ten tags and ten fields, as host metrics have them: about 190 KB of Arrow IPC, 56 KB
with lz4. Two threads append, each for its own region; encoding a frame is their work.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import Measurement
from tsdb.engine.log import EncodedPayload, Frame, encode_frame_payload
from tsdb.engine.wal import Wal, WalSettings

ROWS = 1000
FRAMES = 4000
CALLERS = 2
IN_FLIGHT = 16
TAGS = ("host", "region", "dc", "rack", "os", "arch", "team", "service", "version", "env")


def make_payload(seed: int) -> pa.Buffer:
    """One batch as a region would encode it."""
    random = np.random.default_rng(seed)
    columns: dict[str, pa.Array] = {
        tag: pa.array([f"{tag}_{row * (number + 1) % 100}" for row in range(ROWS)]) for number, tag in enumerate(TAGS)
    }
    columns["ts"] = pa.array(np.repeat(np.arange(ROWS // 100) * 10_000 + 1_700_000_000_000, 100))
    walks = np.clip(50 + np.cumsum(random.normal(0, 1, (10, ROWS)), axis=1), 0, 100).round()
    columns.update({f"field_{number}": pa.array(walk) for number, walk in enumerate(walks)})
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def append_all(wal: Wal, payloads: list[pa.Buffer] | list[EncodedPayload]) -> float:
    """Append from all callers; return the seconds it took."""

    def call(region_id: int) -> None:
        waiting: deque[Future[None]] = deque()
        for number in range(FRAMES // CALLERS):
            payload = payloads[number % len(payloads)]
            if not isinstance(payload, EncodedPayload):
                payload = encode_frame_payload(payload)
            waiting.append(wal.append([Frame(region_id, number + 1, payload, rows=ROWS)]))
            if len(waiting) >= IN_FLIGHT:
                waiting.popleft().result()
        for future in waiting:
            future.result()

    threads = [threading.Thread(target=call, args=(region,)) for region in range(1, CALLERS + 1)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def measure_append(what: str, payloads: list[pa.Buffer] | list[EncodedPayload], *, sync_write: bool) -> Measurement:
    best_seconds = float("inf")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as directory:
            wal, _ = Wal.open(directory, WalSettings(sync_write=sync_write))
            best_seconds = min(best_seconds, append_all(wal, payloads))
            wal.seal()
    return Measurement(what, best_seconds, FRAMES * ROWS, "rows")


def measure_restart(directory: Path, payloads: list[pa.Buffer]) -> Iterator[Measurement]:
    wal, _ = Wal.open(directory)
    append_all(wal, payloads)
    wal.seal()
    started = time.perf_counter()
    wal, report = Wal.open(directory)
    yield Measurement("open and verify", time.perf_counter() - started, FRAMES * ROWS, "rows")
    started = time.perf_counter()
    rows = sum(frame.rows for batch in wal.read({1: 0, 2: 0}) for frame in batch)
    yield Measurement("replay", time.perf_counter() - started, rows, "rows")
    wal.seal()
    assert rows == FRAMES * ROWS
    assert not report.corruptions


def main() -> Iterator[Measurement]:
    payloads = [make_payload(seed) for seed in range(8)]
    encoded = [encode_frame_payload(payload) for payload in payloads]
    yield measure_append("append, lz4, 2 callers", payloads, sync_write=False)
    yield measure_append("append, lz4, 2 callers, sync_write", payloads, sync_write=True)
    yield measure_append("append of encoded frames, 2 callers", encoded, sync_write=False)
    yield measure_append("append of encoded frames, 2 callers, sync_write", encoded, sync_write=True)
    with tempfile.TemporaryDirectory() as directory:
        yield from measure_restart(Path(directory), payloads)
