"""A way past the application for requests that come again and again.

Most of what the layers between the bytes of a request and its query do comes to the same for each request of a
dashboard. A shortcut may answer a request that arrived as a whole; it has to send what the application would. If it
cannot, it gives the bytes back, and the application takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tsdb.servers.http.wire._connection import HttpConnection


class ShortExchange:
    """A request that a shortcut answers."""

    __slots__ = ()

    def wake(self) -> None:
        """The client has gone: nobody will read the answer."""


class Shortcut(Protocol):
    """Answers some requests without the application."""

    @property
    def in_flight(self) -> int:
        """How many requests it has to answer."""

    def take(self, connection: HttpConnection, data: bytes) -> bool:
        """Take what a connection has received if it is a whole request of the right kind; False leaves it alone."""
