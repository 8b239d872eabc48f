"""How long a server takes to answer, beside a control: asked by a process of its own, so that no test holds it up.

    python -m tests.fuzz.latencies '{"health": "http://127.0.0.1:4000/health", …}'

Each is asked again and again on a connection of its own, `health` together with a control: a bare asyncio server in
a process of its own that answers at once. A machine that stands still, or has other things to do, holds up both, so
what the server itself is to blame for is the difference between the two. At the end of the input all times are printed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import quote, urlsplit

PAUSE_SECONDS = 0.02
ANSWER_SECONDS = 90.0
CONTROL = "control"
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK"


@dataclass
class Times:
    """The seconds that answers took, in order, and those that were not answers."""

    seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Return the time that this share of the answers did not exceed."""
        found = sorted(self.seconds)
        return found[min(int(share * len(found)), len(found) - 1)]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {1000 * self.quantile(q):.1f}" for name, q in (("p50", 0.5), ("p99", 0.99)))
        return f"{len(self.seconds)} answers, ms: {shown}, max {1000 * max(self.seconds):.1f}"


class Latencies:
    """Asks until it is stopped."""

    def __init__(self, urls: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(urls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def stop(self) -> dict[str, Times]:
        output, _ = self._process.communicate(timeout=2 * ANSWER_SECONDS)
        return {name: Times(*found) for name, found in json.loads(output).items()}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def sql_url(server: str, text: str, *, patience: str = "") -> str:
    """Return the address that answers a statement; after `#` is the timeout that is asked for."""
    return f"{server}/v1/sql?sql={quote(text)}#{patience}"


# The process that asks


class _Asker:
    """One address, on one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        patience = f"x-tsdb-timeout: {parts.fragment}\r\n" if parts.fragment else ""
        self._address = parts.hostname, parts.port
        self._request = f"GET {target} HTTP/1.1\r\nhost: {parts.netloc}\r\n{patience}\r\n".encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.times = Times()

    async def ask(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        begun = perf_counter()
        try:
            writer.write(self._request)
            async with asyncio.timeout(ANSWER_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length_of(head))
        except (OSError, EOFError, TimeoutError) as error:
            self.times.lost.append(repr(error))
            self._streams = None
        else:
            self.times.seconds.append(perf_counter() - begun)
            if not head.startswith(b"HTTP/1.1 200"):
                self.times.lost.append(f"{head.splitlines()[0].decode()} {body[:200].decode()}")


def _length_of(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def _ask_all(urls: dict[str, str]) -> dict[str, _Asker]:
    askers = {name: _Asker(url) for name, url in urls.items()}
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    pipe = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(pipe), sys.stdin)

    async def again(ask: Callable[[], Awaitable[object]]) -> None:
        while not is_over.is_set():
            await ask()
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS):
                    await is_over.wait()

    async def both() -> None:
        await asyncio.gather(askers["health"].ask(), askers[CONTROL].ask())

    alone = [again(asker.ask) for name, asker in askers.items() if name not in ("health", CONTROL)]
    asking = asyncio.gather(again(both), *alone)
    await pipe.read()
    is_over.set()
    await asking
    return askers


def _ask_beside_control(urls: dict[str, str]) -> None:
    command = [sys.executable, "-m", __spec__.name, CONTROL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as control:
        assert control.stdout is not None
        askers = asyncio.run(_ask_all({**urls, CONTROL: control.stdout.readline().strip()}))
        control.kill()
    print(json.dumps({name: (asker.times.seconds, asker.times.lost) for name, asker in askers.items()}))


# The control


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(EOFError, OSError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(_ANSWER)
    writer.close()


async def _serve_control() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the process that reads the times has ended


if __name__ == "__main__":
    if sys.argv[1] == CONTROL:
        asyncio.run(_serve_control())
    else:
        _ask_beside_control(json.loads(sys.argv[1]))
