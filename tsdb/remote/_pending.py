"""Changes on their way to a datanode: what is sent, and what is done with the answer.

An answer is taken on a thread that must not wait. What has to be sent again, because the region is elsewhere or has
another schema, is sent by a thread for that.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Protocol, TypeVar

from tsdb.engine import SchemaOutdated
from tsdb.engine.entry import FRAME_KINDS, check_batch, encode_batch
from tsdb.model import Batch, RegionId, RegionSchema
from tsdb.remote._elsewhere import ELSEWHERE, explain
from tsdb.remote._link import Link
from tsdb.remote._routes import Routes
from tsdb.remote._settings import RemoteSettings
from tsdb.remote.codec import lower_value
from tsdb.telemetry import SpanKind, current_span
from tsdb.units import Duration

SCHEMAS_MAX = 3
"""For how many versions of a schema a write is encoded that was made for none in particular."""

T = TypeVar("T")


class ChangeSender(Protocol):
    """What changes need to know of the client they are sent by."""

    routes: Routes
    settings: RemoteSettings
    again: Executor

    def at_place(self, region_id: RegionId, ask: Callable[[Link], T]) -> T: ...

    def read_schema(self, region_id: RegionId) -> RegionSchema: ...

    def forget_schema(self, region_id: RegionId) -> None: ...


class RemoteChange:
    """A change other than a write."""

    def __init__(
        self,
        sender: ChangeSender,
        region_id: RegionId,
        op: str,
        args: list[object],
        named: dict[str, object],
        *,
        on_success: Callable[[RegionId], None] | None = None,
    ) -> None:
        self._sender = sender
        self._region_id = region_id
        self._op = op
        self._args = args
        self._named = named
        self._on_success = on_success
        self._is_repeated = False
        self.done: Future[Any] = Future()
        self.done.set_running_or_notify_cancel()
        parent = current_span()
        self._span = None if parent is None else parent.child(f"datanode.{op}", SpanKind.CLIENT, region=int(region_id))
        if self._span is not None:
            self.done.add_done_callback(self._span.end_with)

    def send(self) -> None:
        """Send it; raises if that is not possible."""
        try:
            self._sender.at_place(self._region_id, self._send_to)
        except Exception as error:
            if self._span is not None:
                self._span.fail(error)
                self._span.end()
            raise

    def succeed(self, value: Any) -> None:
        if self._on_success is not None:
            self._on_success(self._region_id)
        self.done.set_result(value)

    def fail(self, error: Exception) -> None:
        if isinstance(error, ELSEWHERE) and not self._is_repeated:
            self._is_repeated = True
            self._later(self._send_elsewhere, error)
        else:
            self.done.set_exception(explain(error, self._sender.routes, self._region_id))

    def _send_to(self, link: Link) -> None:
        args, buffers = lower_value((self._args, self._named))
        head = self._traced({"op": self._op, "args": args}, link)
        link.changes.send(self, head, buffers, wait=self._sender.settings.timeout, answer_by=None)

    def _traced(self, head: dict[str, Any], link: Link) -> dict[str, Any]:
        """Have the datanode continue the trace of a change."""
        if self._span is not None:
            self._span.set({"server.address": link.address})
            head["trace"] = self._span.traceparent
        return head

    def _later(self, work: Callable[[Exception], None], error: Exception) -> None:
        def run() -> None:
            try:
                work(error)
            except Exception as failure:  # noqa: BLE001 - whatever went wrong, the caller is told
                self.done.set_exception(failure)

        try:
            self._sender.again.submit(run)
        except RuntimeError:  # the client was closed
            self.done.set_exception(error)

    def _send_elsewhere(self, error: Exception) -> None:
        if not self._sender.routes.refresh(self._region_id):
            raise explain(error, self._sender.routes, self._region_id)
        self.send()


class RemoteWrite(RemoteChange):
    """Rows, encoded once as the log of the region will have them."""

    def __init__(
        self,
        sender: ChangeSender,
        region_id: RegionId,
        batch: Batch,
        schema: RegionSchema,
        *,
        wait: Duration,
        must_fit: bool,
    ) -> None:
        """With `must_fit` the rows are for this version of the schema and no other."""
        super().__init__(sender, region_id, "write", [], {})
        self._batch = batch
        self._schema = schema
        self._wait = wait
        self._schemas_left = 1 if must_fit else SCHEMAS_MAX
        self._payload = encode_batch(schema, batch)

    def fail(self, error: Exception) -> None:
        if isinstance(error, SchemaOutdated):
            self._later(self._follow_schema, error)
        else:
            super().fail(error)

    def _send_to(self, link: Link) -> None:
        payload = self._payload
        head = {
            "op": "write",
            "region": self._region_id,
            "kind": int(FRAME_KINDS[self._batch.op]),
            "rows": self._batch.rows,
            "version": self._schema.version,
            "wait": int(self._wait),
            "payload": [payload.crc, int(payload.codec), payload.raw_bytes],
        }
        head = self._traced(head, link)
        answer_by = Duration(self._wait + self._sender.settings.answer_timeout)
        link.writes(self._region_id).send(self, head, [payload.stored], wait=self._wait, answer_by=answer_by)

    def _follow_schema(self, error: Exception) -> None:
        """The region has another schema: let the metadata here be as new before the caller acts on that."""
        sender = self._sender
        sender.forget_schema(self._region_id)
        sender.routes.catch_up()
        self._schemas_left -= 1
        if not self._schemas_left:
            raise error
        self._schema = sender.read_schema(self._region_id)
        check_batch(self._schema, self._batch)
        self._payload = encode_batch(self._schema, self._batch)
        self.send()
