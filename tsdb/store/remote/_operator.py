"""What is needed of `opendal`, and how its operators are made.

`opendal` is imported when the first remote store is made: a server with local files only does not load it. Its
operators run on threads of their own, which a forked process does not have: only the process that made one uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tsdb.store._usage import RequestPrices

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """Where a remote store is."""

    name: str
    """How metrics and messages call it."""
    place: str
    """Bucket and root as people write them: `s3://bucket/root`."""
    scheme: str
    """The service, in the words of opendal."""
    arguments: Mapping[str, str] = field(repr=False)
    """Of the service, secrets among them."""
    prices: RequestPrices = field(default_factory=RequestPrices)


@dataclass(frozen=True, slots=True)
class RemoteTuning:
    """Limits of requests to a remote store."""

    attempts_max: int = 5
    delay_min_seconds: float = 0.1
    delay_max_seconds: float = 5.0
    retry_seconds_max: float = 30.0
    """No request is repeated when so much time has passed since the first attempt."""
    timeout_seconds: float = 10.0
    """Of a request without content."""
    transfer_timeout_seconds: float = 30.0
    """Of a request that carries content, as long as none of it arrives."""
    requests_max: int = 64
    """How many requests are under way at a time; others wait."""
    whole_bytes_max: int = 16 * MIB
    """A larger object is sent in parts."""
    part_bytes_min: int = 5 * MIB
    """The smallest part that S3 accepts, unless it is the last one."""
    read_ahead_bytes: int = MIB
    """What a sequential reader asks for at least: neighbouring columns come with one request."""
    list_page: int = 1000


class Metadata(Protocol):
    """What a service says of an object."""

    @property
    def content_length(self) -> int: ...

    @property
    def last_modified(self) -> datetime | None: ...


class ListedObject(Protocol):
    """An object in a listing."""

    @property
    def path(self) -> str: ...

    @property
    def metadata(self) -> Metadata: ...


class PartWriter(Protocol):
    """An upload in parts; it is complete when it is closed."""

    def write(self, bs: bytes, /) -> int: ...

    def close(self) -> None: ...


class Operator(Protocol):
    """The calls of `opendal.Operator` that stores are made of."""

    def read(self, path: str, *, offset: int | None = None, size: int | None = None) -> bytes: ...

    def write(self, path: str, bs: bytes, *, if_not_exists: bool | None = None) -> None: ...

    def stat(self, path: str) -> Metadata: ...

    def list(
        self, path: str, *, limit: int | None = None, start_after: str | None = None, recursive: bool | None = None
    ) -> Iterable[ListedObject]: ...

    def delete(self, path: str) -> None: ...

    def open_parts(self, path: str, part_bytes: int) -> PartWriter:
        """Begin an upload in parts, each of which is sent again if that fails."""
        ...


class OpendalOperator:
    """Operators of opendal: requests are repeated by us, parts of an upload by opendal itself."""

    def __init__(self, settings: BucketSettings, tuning: RemoteTuning) -> None:
        """Raises ConfigInvalid of opendal if the settings do not suffice."""
        import opendal
        from opendal.layers import RetryLayer, TimeoutLayer

        plain = opendal.Operator(settings.scheme, **settings.arguments)
        timeout = TimeoutLayer(tuning.timeout_seconds, tuning.transfer_timeout_seconds)
        retry = RetryLayer(
            max_times=tuning.attempts_max - 1,
            jitter=True,
            min_delay=tuning.delay_min_seconds,
            max_delay=tuning.delay_max_seconds,
        )
        operator = plain.layer(timeout)
        self.read, self.write, self.stat = operator.read, operator.write, operator.stat
        self.delete = operator.delete
        self._lister = operator.to_async_operator()
        self._uploads = operator.layer(retry)

    def list(
        self, path: str, *, limit: int | None = None, start_after: str | None = None, recursive: bool | None = None
    ) -> Iterable[ListedObject]:
        # Its blocking iterator holds Python's lock while it waits for the service: nothing else would run meanwhile.
        async def collect() -> list[ListedObject]:
            found = await self._lister.list(path, limit=limit, start_after=start_after, recursive=recursive)
            return [entry async for entry in found]

        if not _is_in_loop():
            return asyncio.run(collect())
        # A thread has one event loop at a time; another thread waits in this one's place.
        with ThreadPoolExecutor(1, "tsdb-list") as other:
            return other.submit(lambda: asyncio.run(collect())).result()

    def open_parts(self, path: str, part_bytes: int) -> PartWriter:
        return self._uploads.open(path, "wb", chunk=part_bytes)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
