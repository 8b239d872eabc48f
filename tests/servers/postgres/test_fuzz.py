"""Bytes that no client would send: the server answers or closes, and goes on serving others."""

from __future__ import annotations

import os
import random
import struct
import threading
import time
from contextlib import suppress

from tests.servers.postgres.running import RunningServer, bind, close, describe, execute, message, parse, query

SECONDS = float(os.environ.get("TSDB_FUZZ_SECONDS", "4"))

_STARTUP = struct.pack("!ii", 33, 196608) + b"user\0me\0database\0public\0\0"
_CONVERSATIONS = [
    [query("SELECT i, k FROM counted LIMIT 3"), query("SHOW TABLES")],
    [
        parse("SELECT i FROM counted WHERE i = $1", types=(20,)),
        bind(b"\0" * 8, formats=(1,), results=(1,)),
        execute(),
        message("S"),
    ],
    [parse("SELECT 1", name="s"), describe("S", "s"), bind(name="s", portal="p"), describe("P", "p"), execute("p", 1)],
    [close("S", "s"), close("P", "p"), message("H"), message("S"), message("F", b"\0" * 8)],
    [
        query("COPY counted TO STDOUT (FORMAT binary)"),
        query("BEGIN"),
        query("DECLARE c CURSOR FOR SELECT 1"),
        query("FETCH c"),
    ],
    [parse("SELECT $1, $2", types=(1700, 1016)), bind(b"\0" * 10, b"\0" * 20, formats=(1,)), execute(), message("S")],
]


def _mutate(sent: bytes, chance: random.Random) -> bytes:
    """Change, drop, repeat or cut some of the bytes."""
    raw = bytearray(sent)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(raw)) if raw else 0
        what = chance.randrange(5)
        if what == 0 and raw:
            raw[at] = chance.randrange(256)
        elif what == 1:
            raw[at:at] = chance.randbytes(chance.randint(1, 8))
        elif what == 2:
            del raw[at : at + chance.randint(1, 8)]
        elif what == 3:
            raw += raw[at : at + 16]
        elif len(raw) > at + 4:
            raw[at : at + 4] = struct.pack("!i", chance.choice([-1, 0, 4, 5, 255, 65536, 2**31 - 1]))
    return bytes(raw)


def test_mutated_messages_are_answered_or_end_the_connection(pg: RunningServer) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    deadline = time.monotonic() + SECONDS
    threads = threading.active_count()
    rounds = 0
    while time.monotonic() < deadline:
        rounds += 1
        with pg.raw() as client:
            client.socket.settimeout(5)
            if chance.random() < 0.2:
                client.socket.sendall(_mutate(_STARTUP, chance))
            else:
                client.log_in()
                conversation = chance.choice(_CONVERSATIONS)
                try:
                    for each in conversation:
                        client.socket.sendall(_mutate(each, chance) if chance.random() < 0.7 else each)
                except ConnectionError:
                    continue
            try:
                with suppress(OSError):  # the server was quicker
                    client.socket.shutdown(1)
                client.read_until("")
            except TimeoutError as error:
                raise AssertionError(f"the server hangs; seed {seed}, round {rounds}") from error
    assert rounds > 10
    with pg.connect() as connection:
        assert connection.execute("SELECT count(*) FROM counted").fetchone() == (1000,)
    assert threading.active_count() <= threads + 4
    pause = threading.Event()
    for _ in range(3000):  # a statement leaves the list after its answer
        if not pg.database.services.processes.all():
            return
        pause.wait(0.01)
    raise AssertionError(pg.database.services.processes.all())


def test_random_bytes_at_the_start_are_refused(pg: RunningServer) -> None:
    chance = random.Random(7)
    for _ in range(50):
        with pg.raw() as client:
            client.socket.sendall(chance.randbytes(chance.randint(1, 200)))
            client.socket.shutdown(1)
            client.read_until("")
    with pg.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
