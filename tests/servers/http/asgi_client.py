"""Drives an ASGI application without sockets, as a server would."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

Message = MutableMapping[str, Any]

SECONDS_MAX = 30
"""Nobody waits longer for an answer; on a machine that is busy with other things it takes a while."""


@dataclass
class Answer:
    """What the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False

    def json(self) -> Any:
        return orjson.loads(self.body)


class Exchange:
    """One request: feed its body, let the client go, look at the answer."""

    def __init__(self, app: Callable[..., Awaitable[None]], method: str, target: str, headers: dict[str, str]) -> None:
        path, _, query = target.partition("?")
        self.answer = Answer()
        self.received_before_answer = 0
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50_000),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    def feed(self, body: bytes, *, more: bool = False) -> None:
        self._messages.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    async def finish(self) -> Answer:
        async with asyncio.timeout(SECONDS_MAX):
            await self.task
        return self.answer

    async def _receive(self) -> Message:
        message = await self._messages.get()
        if not self.answer.status:
            self.received_before_answer += 1
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            assert self.answer.status == 0, "an answer starts once"
            self.answer.status = message["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert self.answer.status, "a body follows the start"
            assert not self.answer.is_complete, "nothing follows the end"
            self.answer.body += message.get("body", b"")
            self.answer.is_complete = not message.get("more_body", False)


async def call(
    app: Callable[..., Awaitable[None]],
    method: str,
    target: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """Send a whole request and return the whole answer."""
    headers = dict(headers or {})
    if body is not None:
        headers.setdefault("content-length", str(len(body)))
    exchange = Exchange(app, method, target, headers)
    exchange.feed(body or b"")
    return await exchange.finish()
