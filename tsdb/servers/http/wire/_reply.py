"""Sends the response to one request, and tracks how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter

from tsdb.servers.http.wire._compression import compress
from tsdb.servers.http.wire._messages import AnyResponse, Send, StreamingResponse, close_chunks
from tsdb.servers.http.wire._protocol import BODILESS


class Reply:
    """The way back to the client. Once `is_started`, the status is out and can no longer change."""

    __slots__ = ("_is_head", "_send", "accepted", "ended", "is_started", "status")

    def __init__(self, send: Send, *, is_head: bool) -> None:
        self._send = send
        self._is_head = is_head
        self.accepted: str | None = None
        """The codings that the client accepts, as it says; None if it says nothing."""
        self.is_started = False
        self.status = 0
        self.ended: float | None = None
        """When the last byte was sent, by `perf_counter`."""

    async def send(self, response: AnyResponse) -> None:
        if self.accepted is not None:
            response = await compress(response, self.accepted)
        if isinstance(response, StreamingResponse):
            await self._send_stream(response)
            self.ended = perf_counter()
            return
        headers, body = response.raw_headers, response.body
        if response.status not in BODILESS:
            headers = [*headers, (b"content-length", b"%d" % len(body))]
        await self._start(response.status, headers)
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})
        self.ended = perf_counter()

    async def _send_stream(self, response: StreamingResponse) -> None:
        chunks = aiter(response.chunks)
        try:
            chunk = None if self._is_head else await anext(chunks, None)
            await self._start(response.status, response.raw_headers)
            while chunk is not None:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                # Sending to a client that has gone returns at once. An iterator that never waits either would
                # keep the loop from noticing, so let it look.
                await asyncio.sleep(0)
                chunk = await anext(chunks, None)
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            await close_chunks(chunks)

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> Awaitable[None]:
        self.is_started = True
        self.status = status
        return self._send({"type": "http.response.start", "status": status, "headers": headers})
