"""Objects in the bucket of a service: S3, Aliyun OSS, Azure Blob Storage, Google Cloud Storage.

An object is durable when the service has answered. A request without an answer may have had its effect:

- `put` and `delete` are repeated, which changes nothing.
- `put_if_absent` that is repeated may find its own object: its content is read back and compared.
- A range whose answer has another length than was asked for is never passed on.

`probe` finds out whether the service enforces that an object is created only once. Where it does not, one process can
still rely on it: it looks before it writes, one writer at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice

import pyarrow as pa

from tsdb.clock import Clock, SystemClock
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.store._errors import (
    InvalidRange,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreMisconfigured,
    StoreUnreachable,
)
from tsdb.store._protocol import (
    DEFAULT_BUFFER_BYTES,
    TEMPORARY_MARK,
    ObjectData,
    ObjectMeta,
    ObjectSink,
    as_buffers,
    check_path,
    check_prefix,
)
from tsdb.store._range_file import RangeFile
from tsdb.store._usage import Operation, RequestLedger
from tsdb.store.remote._failures import AnswerTooShort, RequestNotSupported, is_too_short, wrong_length
from tsdb.store.remote._input import ReadAhead
from tsdb.store.remote._operator import (
    BucketSettings,
    ListedObject,
    Metadata,
    OpendalOperator,
    Operator,
    PartWriter,
    RemoteTuning,
)
from tsdb.store.remote._requests import RequestFailed, Requests
from tsdb.store.remote._sink import PartSink
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.store")

PROBE_DIRECTORY = "probe"
_PROBE_BYTES = 8


class RemoteStore:
    """An `ObjectStore` in a bucket. Thread-safe; not to be used in a forked process."""

    def __init__(
        self,
        settings: BucketSettings,
        *,
        operator: Operator | None = None,
        tuning: RemoteTuning | None = None,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`operator` stands for the service; without one it is made by the settings."""
        self._tuning = tuning or RemoteTuning()
        self._settings = settings
        self._operator = operator or _made(settings, self._tuning)
        self._ids = ids
        self._requests = Requests(
            RequestLedger(settings.name, settings.prices),
            settings.place,
            tuning=self._tuning,
            clock=clock or SystemClock(),
            wait=wait,
        )
        self._creating = threading.Lock()
        self.creates_only_once = True
        """Whether the service itself enforces `put_if_absent`."""

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def place(self) -> str:
        """Bucket and root as people write them."""
        return self._settings.place

    @property
    def ledger(self) -> RequestLedger:
        """What was asked of the service."""
        return self._requests.ledger

    @property
    def is_down(self) -> bool:
        """Whether the service has not answered since the last request that was given up."""
        return self._requests.is_down

    def probe(self) -> None:
        """Check that the service can be used at all, and what it does about objects that exist; StoreError."""
        path = f"{PROBE_DIRECTORY}/{self._ids.token(_PROBE_BYTES)}"
        try:
            self.creates_only_once = self._probe_creation(path)
            if self.get_range(path, 1, 3) != b"irs":
                self.creates_only_once = False
        finally:
            with suppress(StoreError):
                self.delete(path)
        if self.creates_only_once:
            _log.info("object store is ready", store=self.name, place=self.place, creates_only_once=True)
        else:
            _log.warning(
                "the object store overwrites objects that must be created only once: only one server may use it",
                store=self.name,
                place=self.place,
                creates_only_once=False,
            )

    def _probe_creation(self, path: str) -> bool:
        try:
            self._create(path, b"first")
        except RequestNotSupported:
            self._put_whole(path, b"first")
            return False
        try:
            self._create(path, b"second")
        except (ObjectExists, RequestNotSupported) as error:
            return isinstance(error, ObjectExists)
        self._put_whole(path, b"first")
        return False

    def put(self, path: str, data: ObjectData) -> None:
        check_path(path)
        parts = as_buffers(data)
        if sum(map(len, parts)) <= self._tuning.whole_bytes_max:
            self._put_whole(path, b"".join(parts))
            return
        with self.writer(path, self._tuning.whole_bytes_max) as sink:
            for part in parts:
                sink.write(part)

    def put_if_absent(self, path: str, data: ObjectData) -> None:
        check_path(path)
        content = b"".join(as_buffers(data))
        if self.creates_only_once:
            self._create(path, content)
            return
        # Held while the service is asked: there is nothing else that keeps two writers of this process apart.
        with self._creating:
            if self._exists(path):
                raise ObjectExists(path)
            self._put_whole(path, content)

    def get(self, path: str) -> bytes:
        return self._requests.run(
            Operation.GET, "read from", check_path(path), lambda _: self._operator.read(path), size=len
        )

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        if offset < 0 or length <= 0:
            self._check_range(check_path(path), offset, length)
            return b""
        check_path(path)
        for number in range(1, self._tuning.attempts_max + 1):
            try:
                return self._requests.run(
                    Operation.GET, "read from", path, lambda _: self._read_range(path, offset, length), size=len
                )
            except AnswerTooShort:
                self._check_range(path, offset, length)
                if number == self._tuning.attempts_max:
                    raise
        raise AssertionError("unreachable")

    def head(self, path: str) -> ObjectMeta:
        check_path(path)
        found = self._requests.run(Operation.HEAD, "look into", path, lambda _: self._operator.stat(path))
        return _meta(path, found)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        return self._list(check_prefix(prefix), start_after or "")

    def delete(self, path: str) -> None:
        check_path(path)
        with suppress(ObjectNotFound):
            self._requests.run(Operation.DELETE, "delete from", path, lambda _: self._operator.delete(path))

    def delete_prefix(self, prefix: str) -> None:
        for found in list(self.list(prefix)):
            self.delete(found.path)

    @contextmanager
    def writer(self, path: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> Iterator[ObjectSink]:
        check_path(path)
        part_bytes = max(buffer_bytes, self._tuning.part_bytes_min)
        requests = self._requests

        def send(upload: PartWriter, part: bytes) -> None:
            requests.once(Operation.PUT, "write to", path, lambda: upload.write(part), nbytes=len(part))

        sink = PartSink(
            part_bytes,
            put=lambda content: self._put_whole(path, content),
            begin=lambda: requests.once(
                Operation.PUT, "write to", path, lambda: self._operator.open_parts(path, part_bytes)
            ),
            send=send,
            complete=lambda upload: requests.once(Operation.PUT, "write to", path, upload.close),
        )
        try:
            yield sink
            sink.finish()
        finally:
            sink.abandon()

    def open_input(self, path: str) -> pa.NativeFile:
        size_bytes = self.head(path).size_bytes
        read = ReadAhead(size_bytes, partial(self.get_range, path), ahead_bytes=self._tuning.read_ahead_bytes)
        return RangeFile(size_bytes, read).as_arrow()

    def _put_whole(self, path: str, content: bytes) -> None:
        def attempt(_: int) -> int:
            self._operator.write(path, content)
            return len(content)

        self._requests.run(Operation.PUT, "write to", path, attempt, size=int)

    def _create(self, path: str, content: bytes) -> None:
        """Write an object that must not exist, as the service enforces it; RequestNotSupported if it cannot."""
        attempts = 0

        def attempt(number: int) -> int:
            nonlocal attempts
            attempts = number
            self._operator.write(path, content, if_not_exists=True)
            return len(content)

        try:
            self._requests.run(Operation.PUT, "write to", path, attempt, size=int)
        except ObjectNotFound as error:
            raise StoreError(
                f"cannot write to {self.place}: the service does not find the bucket", path=path
            ) from error
        except StoreError as error:
            # An attempt whose answer was lost may have written what this one found, or what nobody looked at yet.
            is_in_doubt = attempts > 1 or isinstance(error, StoreUnreachable)
            if is_in_doubt and self._holds(path, content):
                return
            raise

    def _holds(self, path: str, content: bytes) -> bool:
        """Whether an object is known to have this content."""
        try:
            return self.get(path) == content
        except StoreError:
            return False

    def _exists(self, path: str) -> bool:
        try:
            self.head(path)
        except ObjectNotFound:
            return False
        return True

    def _read_range(self, path: str, offset: int, length: int) -> bytes:
        try:
            data = self._operator.read(path, offset=offset, size=length)
        except Exception as error:
            if not is_too_short(error):
                raise
            data = b""
        if len(data) != length:
            raise RequestFailed(wrong_length(path=path, place=self.place, expected=length, received=len(data)))
        return data

    def _check_range(self, path: str, offset: int, length: int) -> None:
        """Raise InvalidRange if an object does not hold a range."""
        size_bytes = self.head(path).size_bytes
        if offset < 0 or length < 0 or offset + length > size_bytes:
            raise InvalidRange(path, offset=offset, length=length, size_bytes=size_bytes)

    def _list(self, prefix: str, start_after: str) -> Iterator[ObjectMeta]:
        pages = _Pages(self._operator, f"{prefix}/" if prefix else "/", start_after, self._tuning.list_page)
        while not pages.is_over:
            for entry in self._requests.run(Operation.LIST, "list", prefix, lambda _: pages.next()):
                # A service may show directories as empty objects.
                if not entry.path.endswith("/") and TEMPORARY_MARK not in entry.path:
                    yield _meta(entry.path, entry.metadata)


class _Pages:
    """A listing in pages: one that failed begins again behind the last entry that arrived."""

    def __init__(self, operator: Operator, directory: str, start_after: str, size: int) -> None:
        self._operator = operator
        self._directory = directory
        self._after = start_after
        self._size = size
        self._entries: Iterator[ListedObject] | None = None
        self.is_over = False

    def next(self) -> list[ListedObject]:
        if self._entries is None:
            self._entries = iter(
                self._operator.list(self._directory, recursive=True, limit=self._size, start_after=self._after or None)
            )
        entries, self._entries = self._entries, None
        page = list(islice(entries, self._size))
        self._entries = entries
        self.is_over = len(page) < self._size
        # Not every service can begin in the middle.
        found = [entry for entry in page if entry.path > self._after]
        if found:
            self._after = found[-1].path
        return found


def _made(settings: BucketSettings, tuning: RemoteTuning) -> Operator:
    try:
        return OpendalOperator(settings, tuning)
    except Exception as error:  # noqa: BLE001 - opendal's errors have no common base worth naming
        summary = str(error).partition("\n")[0].partition("=> ")[2]
        raise StoreMisconfigured(f"cannot use {settings.place}: {summary or error}") from None


def _meta(path: str, found: Metadata) -> ObjectMeta:
    modified = found.last_modified
    modified_ns = 0 if modified is None else round(modified.timestamp() * 1e6) * 1000
    return ObjectMeta(path, found.content_length, modified_ns)
