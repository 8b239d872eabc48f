"""Random and mutated packets at every port: the server answers or closes, and is what it was before.

By default some seconds per port, so that `make test` has it; `make fuzz` takes minutes (`TSDB_FUZZ_SECONDS` per port),
and then also holds connections open that never come to the end of what they say, until the server cuts them. The seed
is printed; `TSDB_FUZZ_SEED` repeats a run.
"""

from __future__ import annotations

import os
import random
import re
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psycopg
import pymysql
import pytest

from tests.fuzz import seeds
from tests.server_process import ServerProcess, running

SECONDS = float(os.environ.get("TSDB_FUZZ_SECONDS", "2"))
SEED = int(os.environ.get("TSDB_FUZZ_SEED", "0")) or random.SystemRandom().getrandbits(32)
ANSWER_SECONDS = 0.05
"""How long an answer to garbage is waited for; there may be none."""
CONVERSATIONS_MIN = 10
"""How many there are at least, however slow the machine is."""
SETTLE_SECONDS = 60.0
SLOW_SECONDS = 90.0
"""How long a server may bear somebody who does not come to an end."""
SLOW_CONNECTIONS = 16
LENGTHS = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\4")
THREADS_MORE, DESCRIPTORS_MORE, MEGABYTES_MORE = 24, 24, 300
PORTS: dict[str, tuple[str, Callable[[], list[seeds.Conversation]]]] = {
    "http": ("HTTP", seeds.http),
    "mysql": ("MySQL", seeds.mysql),
    "postgres": ("Postgres", seeds.postgres),
    "grpc": ("gRPC", seeds.grpc),
    "opentsdb": ("OpenTSDB", seeds.opentsdb),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("fuzz")) as started:
        _check_answers(started)
        yield started
        assert started.stop() == 0
        assert mistakes(started.output) == []


def _port(server: ServerProcess, name: str) -> int:
    if name == "HTTP":
        return int(server.url.rsplit(":", 1)[1])
    found = re.search(rf"^  {name} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return int(found[1])


def mistakes(output: str) -> list[str]:
    """What the server has logged of itself that nobody expected; the gRPC library logs what it gets, too."""
    records = re.split(r"^(?=\d{4}-\d\d-\d\dT)", output, flags=re.MULTILINE)
    return [each for each in records if "Traceback" in each and ("ERROR tsdb." in each or "/tsdb/" in each)]


def mutate(chance: random.Random, conversation: seeds.Conversation) -> list[bytes]:
    """Return a conversation that has gone wrong in some way."""
    messages = [bytearray(message) for message in conversation]
    for _ in range(chance.randint(1, 4)):
        message = chance.choice(messages)
        at = chance.randrange(len(message) + 1)
        match chance.randrange(8):
            case 0 if message:
                message[at % len(message)] ^= 1 << chance.randrange(8)
            case 1:
                del message[at:]
            case 2:
                message[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8, 200)))
            case 3 if message:
                message[at : at + 4] = chance.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\4")
                )
            case 4:
                message += message[: chance.randrange(1, 2000)]
            case 5:
                messages.append(bytearray(chance.choice(conversation)))
            case 6:
                chance.shuffle(messages)
            case _:
                messages.append(bytearray(chance.randbytes(chance.randrange(1, 3000))))
    return [bytes(message) for message in messages]


def say(port: int, messages: list[bytes], chance: random.Random, context: ssl.SSLContext | None = None) -> None:
    """Send a conversation, inside of TLS if there is a context, read what comes, and leave in one way or another."""
    with suppress(OSError), ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        if context is not None:
            client = stack.enter_context(context.wrap_socket(client, server_hostname="127.0.0.1"))
        for message in messages:
            client.sendall(message)
            client.settimeout(ANSWER_SECONDS if chance.random() < 0.5 else 0.001)
            with suppress(TimeoutError):
                client.recv(65536)
            client.settimeout(10)
        if chance.random() < 0.3:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # leave with a reset


def _check_answers(server: ServerProcess) -> None:
    """Somebody who keeps to the protocol is served, at every port."""
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": "SELECT 1"}, timeout=30)
    assert answer.status_code == 200, answer.text
    address = {"host": "127.0.0.1", "connect_timeout": 30}
    with (
        pymysql.connect(port=_port(server, "MySQL"), user="me", read_timeout=30, **address) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)
    with psycopg.connect(port=_port(server, "Postgres"), user="me", dbname="public", **address) as opened:
        assert opened.execute("SELECT 1").fetchone() == (1,)
    time.sleep(0.5)  # the server of gRPC may be on its way back
    with socket.create_connection(("127.0.0.1", _port(server, "gRPC")), timeout=30) as client:
        client.sendall(seeds.grpc()[0][0])
        assert client.recv(9)[3] == 4, "the settings of HTTP/2"
    with socket.create_connection(("127.0.0.1", _port(server, "OpenTSDB")), timeout=30) as client:
        client.sendall(b"put fuzz_alive\n")
        assert client.recv(100)


def costs(server: ServerProcess) -> tuple[int, int, float]:
    """Threads, descriptors and megabytes of the server."""
    process = Path(f"/proc/{server.process.pid}")
    status = (process / "status").read_text()
    found = {name: int(re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[1]) for name in ("Threads", "VmRSS")}  # type: ignore[index]
    return found["Threads"], len(list((process / "fd").iterdir())), found["VmRSS"] / 1024


def check_costs(server: ServerProcess, before: tuple[int, int, float]) -> None:
    """Nothing is left of those who have gone, after a while."""
    allowed = (before[0] + THREADS_MORE, before[1] + DESCRIPTORS_MORE, before[2] + MEGABYTES_MORE)
    deadline = time.monotonic() + SETTLE_SECONDS
    while not all(now <= most for now, most in zip(costs(server), allowed, strict=True)):
        assert time.monotonic() < deadline, f"before {before}, now {costs(server)}"
        time.sleep(0.2)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts threads and descriptors in /proc")
@pytest.mark.timeout(SECONDS * 2 + 240)
@pytest.mark.parametrize("port", PORTS)
def test_garbage_at_a_port_leaves_the_server_as_it_was(server: ServerProcess, port: str) -> None:
    name, conversations = PORTS[port]
    number, known = _port(server, name), conversations()
    chance = random.Random(f"{SEED} {port}")
    print(f"TSDB_FUZZ_SEED={SEED}")
    before, sent = costs(server), 0
    deadline = time.monotonic() + SECONDS
    while sent < CONVERSATIONS_MIN or time.monotonic() < deadline:
        messages = mutate(chance, chance.choice(known)) if chance.random() < 0.9 else [chance.randbytes(500)]
        say(number, messages, chance)
        sent += 1
        assert server.process.poll() is None, f"the server has ended, seed {SEED}\n{server.output[-4000:]}"
    _check_answers(server)
    check_costs(server, before)
    print(f"{port}: {sent} conversations, threads/descriptors/MB {before} -> {costs(server)}")


@pytest.mark.skipif(SECONDS < 30, reason="takes minutes: make fuzz")
@pytest.mark.timeout(SLOW_SECONDS * 3)
@pytest.mark.parametrize("port", PORTS)
def test_who_never_comes_to_an_end_is_cut(server: ServerProcess, port: str) -> None:
    name, conversations = PORTS[port]
    first = conversations()[0][0]
    before = costs(server)
    opened = [socket.create_connection(("127.0.0.1", _port(server, name)), timeout=30) for _ in range(SLOW_CONNECTIONS)]
    waiting = selectors.DefaultSelector()
    for client in opened:
        client.sendall(first[: max(len(first) // 2, 3)])
        waiting.register(client, selectors.EVENT_READ)
    deadline = time.monotonic() + SLOW_SECONDS
    while waiting.get_map():
        assert time.monotonic() < deadline, f"{len(waiting.get_map())} connections are still open"
        for key, _ in waiting.select(1.0):
            assert isinstance(key.fileobj, socket.socket)
            with suppress(ConnectionError):
                if key.fileobj.recv(65536):
                    continue
            waiting.unregister(key.fileobj)
            key.fileobj.close()
    _check_answers(server)
    check_costs(server, before)
