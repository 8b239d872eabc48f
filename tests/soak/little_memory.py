"""Hosts with ten tags and ten numbers each, by line protocol and by remote write, in the size of a real load."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from tests.ingest.prometheus_messages import write_request
from tests.soak.bombs import Sender, pack

START_MS, STEP_MS = 1_767_225_600_000, 10_000
HOSTS, CONNECTIONS = 400, 4
FIELDS = [f"usage_{number}" for number in range(10)]
_TAGS = ("region", "datacenter", "rack", "os", "arch", "team", "service", "version", "stage")
_SENTINEL = struct.pack("<d", 1.2345678e-300)
_ROUND = 2
"""Steps in one body of remote write."""

Values = npt.NDArray[np.int64]


def tags_of(host: int) -> list[tuple[str, str]]:
    return [("hostname", f"host_{host}"), *((tag, f"{tag}_{host * (at + 3) % 23}") for at, tag in enumerate(_TAGS))]


def values_of(steps: int) -> Values:
    """Random walks, by step, host and field."""
    moves = np.random.default_rng(7).integers(-1, 2, (steps, HOSTS, len(FIELDS)))
    return np.clip(50 + np.cumsum(moves, axis=0), 0, 100)


def line_bodies(values: Values, steps_per_body: int = 12) -> Iterator[bytes]:
    heads = ["cpu," + ",".join(f"{name}={value}" for name, value in tags_of(host)) for host in range(HOSTS)]
    row = "%s " + ",".join(f"{field}=%di" for field in FIELDS) + " %d"
    for first in range(0, len(values), steps_per_body):
        yield "\n".join(
            row % (head, *numbers, START_MS + step * STEP_MS)
            for step, hosts in enumerate(values[first : first + steps_per_body].tolist(), first)
            for head, numbers in zip(heads, hosts, strict=True)
        ).encode()


def sample_bodies(values: Values) -> Iterator[bytes]:
    """A series a host and field, each sample in an entry of its own, as agents send them."""
    (sentinel,) = struct.unpack("<d", _SENTINEL)
    series = [
        ([("__name__", f"cpu_{field}"), *tags_of(host)], [(START_MS, sentinel)])
        for host in range(HOSTS)
        for field in FIELDS
    ]
    message = write_request(series).SerializeToString()
    places = np.array([found.start() for found in re.finditer(re.escape(_SENTINEL), message)])
    time = _varint(START_MS)
    for first in range(0, len(values), _ROUND):
        bodies = []
        for step, numbers in enumerate(values[first : first + _ROUND], first):
            body = np.frombuffer(message.replace(time, _varint(START_MS + step * STEP_MS)), np.uint8).copy()
            body[places[:, None] + np.arange(8)] = numbers.astype("<f8").reshape(-1, 1).view(np.uint8)
            bodies.append(body.tobytes())
        yield pack(b"".join(bodies))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def send_all(url: str, bodies: Iterator[bytes], send: Callable[[Sender, bytes], None]) -> None:
    """Send all bodies over several connections, each of which takes the next one."""
    lock = threading.Lock()

    def work() -> None:
        sender = Sender(url)
        try:
            while True:
                with lock:
                    body = next(bodies, None)
                if body is None:
                    return
                send(sender, body)
        finally:
            sender.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for each in [pool.submit(work) for _ in range(CONNECTIONS)]:
            each.result()
