"""The server's end of a stream of changes: many are on their way at a time, and are answered as they end.

    {"n": number, "op": "write", "region": …, "kind": …, "rows": …, "version": …, "wait": …, "payload": […]}
    {"n": number, "op": verb, "args": [arguments, arguments by name]}
    both with "trace": traceparent, if they are traced
    {"op": "release", "released": [readers]}, which is not answered
    {"n": number, "op": "ping"}, which is answered with nothing
        ◀─ {"answers": [[number, true, value], [number, false, error], …]}

The thread of the stream reads and begins changes; the engine says that one has ended on a thread of its own, which must
not wait for a client: a second thread of the stream sends the answers, all that there are at a time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from tsdb.engine import FrameKind
from tsdb.engine.entry import receive_payload
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.remote._errors import BadMessage, lower_error
from tsdb.remote._served import ServedRegions
from tsdb.remote._streams import BROKEN, ServerStream
from tsdb.remote.codec import lower_into, raise_value
from tsdb.telemetry import continue_trace, get_logger, using_span
from tsdb.units import Duration

CHANGE_VERBS = frozenset(
    {
        "alter",
        "set_options",
        "flush",
        "compact",
        "verify",
        "give_up_file",
        "truncate",
        "drop",
        "discard_unflushed",
        "hand_in",
    }
)
IN_FLIGHT_MAX = 1024
"""How many changes of a stream may be unanswered before the next is read."""
_LOOK_SECONDS = 1.0

_log = get_logger("tsdb.remote")

_Answer = tuple[int, Any, BaseException | None]


class ChangesEnd:
    """Begins the changes of one stream, and answers them."""

    def __init__(
        self, stream: ServerStream, regions: Callable[[], ServedRegions], release: Callable[[list[int]], None]
    ) -> None:
        """`release` lets go of readers that the client does not need any more."""
        self._stream = stream
        self._regions = regions
        self._release = release
        self._answers: queue.SimpleQueue[_Answer | None] = queue.SimpleQueue()
        self._room = threading.BoundedSemaphore(IN_FLIGHT_MAX)

    def run(self) -> None:
        """Take changes until the client ends the stream; those that have begun go on."""
        sender = threading.Thread(target=self._send_answers, name="tsdb-answers", daemon=True)
        sender.start()
        try:
            while (message := self._stream.receive()) is not None:
                if message[0]["op"] == "release":
                    self._release(message[0]["released"])
                elif not self._wait_for_room():
                    break
                elif message[0]["op"] == "ping":
                    self._answers.put((message[0]["n"], None, None))
                else:
                    self._begin(*message)
        finally:
            self._answers.put(None)
            sender.join()

    def _wait_for_room(self) -> bool:
        while not self._room.acquire(timeout=_LOOK_SECONDS):
            if self._stream.is_broken:
                return False
        return True

    def _begin(self, head: dict[str, Any], buffers: list[pa.Buffer]) -> None:
        number = head["n"]
        span = continue_trace(f"datanode.{head['op']}", head.get("trace"))
        try:
            with using_span(span):
                done = self._write(head, buffers) if head["op"] == "write" else self._change(head, buffers)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the client is told
            if span is not None:
                span.fail(error)
                span.end()
            if not isinstance(error, TsdbError):
                _log.exception("a change of another node failed", op=head.get("op"))
            self._answers.put((number, None, error))
            return
        if span is not None:
            done.add_done_callback(span.end_with)
        done.add_done_callback(lambda done: self._answers.put(_answer_of(number, done)))

    def _write(self, head: dict[str, Any], buffers: list[pa.Buffer]) -> Future[int]:
        crc, codec, raw_bytes = head["payload"]
        payload = receive_payload(buffers[0].to_pybytes(), crc=crc, codec=codec, raw_bytes=raw_bytes)
        wait = head.get("wait")
        return self._regions().write_encoded(
            RegionId(head["region"]),
            payload,
            FrameKind(head["kind"]),
            rows=head["rows"],
            schema_version=head["version"],
            timeout=None if wait is None else Duration(wait),
        )

    def _change(self, head: dict[str, Any], buffers: list[pa.Buffer]) -> Future[Any]:
        if head["op"] not in CHANGE_VERBS:
            raise BadMessage(f"there is no verb {head['op']!r}")
        args, named = raise_value(head["args"], buffers)
        done: Future[Any] = getattr(self._regions(), head["op"])(*args, **named)
        return done

    def _send_answers(self) -> None:
        is_over = False
        while not is_over:
            ended = [self._answers.get()]
            while not self._answers.empty():
                ended.append(self._answers.get())
            is_over = None in ended
            answers = [each for each in ended if each is not None]
            if not answers:
                continue
            for _ in answers:
                self._room.release()
            try:
                self._stream.send(*_message_of(answers))
            except BROKEN:
                # The client is gone. What has begun goes on, and its answers are taken until the stream is over.
                continue


def _answer_of(number: int, done: Future[Any]) -> _Answer:
    error = done.exception()
    return (number, None, error) if error is not None else (number, done.result(), None)


def _message_of(answers: list[_Answer]) -> tuple[dict[str, Any], list[Any]]:
    buffers: list[Any] = []
    lowered = [
        [number, True, lower_into(value, buffers)] if error is None else [number, False, lower_error(error)]
        for number, value, error in answers
    ]
    return {"answers": lowered}, buffers
