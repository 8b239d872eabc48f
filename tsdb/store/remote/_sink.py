"""Writing a remote object in pieces: one request if it is small, an upload in parts if it is not.

What is held is one part that is being filled and, while it is sent, its copy. An upload that is not completed shows
nothing, but its parts stay in the bucket until a rule of the bucket for incomplete uploads deletes them.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.store._files import Buffer
from tsdb.store._protocol import ObjectSink
from tsdb.store.remote._operator import PartWriter


class PartSink(ObjectSink):
    """Collects what is written into parts of `part_bytes`."""

    def __init__(
        self,
        part_bytes: int,
        *,
        put: Callable[[bytes], None],
        begin: Callable[[], PartWriter],
        send: Callable[[PartWriter, bytes], None],
        complete: Callable[[PartWriter], None],
    ) -> None:
        """`put` writes a whole object; `begin`, `send` and `complete` are the steps of an upload in parts."""
        self._part_bytes = part_bytes
        self._put = put
        self._begin = begin
        self._send = send
        self._complete = complete
        self._part = bytearray()
        self._upload: PartWriter | None = None
        self._written = 0
        self._is_closed = False

    @property
    def closed(self) -> bool:
        return self._is_closed

    @property
    def held_bytes(self) -> int:
        return len(self._part)

    def write(self, data: Buffer, /) -> int:
        if self._is_closed:
            raise ValueError("the writer of the object is closed")
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            taken = min(len(rest), self._part_bytes - len(self._part))
            self._part += rest[:taken]
            rest = rest[taken:]
            if len(self._part) == self._part_bytes and rest:
                self._send_part()
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing: parts are sent when they are full."""

    def close(self) -> None:
        """Nothing: the writer's block decides when the object is complete."""

    def finish(self) -> None:
        """Make the object appear."""
        if self._upload is None:
            self._put(bytes(self._part))
        else:
            self._send_part()
            self._complete(self._upload)
        self.abandon()

    def abandon(self) -> None:
        """Forget what was written."""
        self._upload = None
        self._part = bytearray()
        self._is_closed = True

    def _send_part(self) -> None:
        if self._upload is None:
            self._upload = self._begin()
        part, self._part = bytes(self._part), bytearray()
        self._send(self._upload, part)
