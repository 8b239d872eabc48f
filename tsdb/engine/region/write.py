"""Writing: a request, its numbers, its entry of the log and its rows in a memtable. Runs in a turn of the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from tsdb.engine.entry import FRAME_KINDS, encode_batch
from tsdb.engine.errors import SchemaOutdated
from tsdb.engine.log import EncodedPayload, Frame
from tsdb.engine.region.region import Region
from tsdb.engine.rows.memtable import charged_bytes
from tsdb.engine.rows.series import conform_series
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import Batch, OpType, RegionSchema, can_widen, cast_or_null
from tsdb.telemetry import TraceSpan, get_logger

_log = get_logger("tsdb.region")


CRASH_POINTS = ("write.after_submit", "write.before_apply", "write.before_answer")

_SEQUENCE_BYTES = 8


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A batch on its way into a region; `schema` is the one it was made and encoded under."""

    region: Region
    batch: Batch
    schema: RegionSchema
    payload: EncodedPayload
    nbytes: int
    deadline_ns: int
    done: Future[int]
    must_fit: bool = False
    """Refuse it, rather than bring it to the current schema, if that is another one by now."""
    span: TraceSpan | None = None
    """Ends with it, if its request is traced."""

    @property
    def memory_bytes(self) -> int:
        """The charge to the write buffer: the rows and the sequences that they will get."""
        return charged_bytes(self.batch.series, self.batch.fields, self.nbytes) + _SEQUENCE_BYTES * self.batch.rows


class Numbers(NamedTuple):
    """The last assigned entry id and sequence of a region."""

    entry_id: int
    sequence: int


@dataclass(slots=True, eq=False)
class NumberedWrite:
    """A request with the numbers that it gets if the log accepts it."""

    request: PendingWrite
    entry_id: int
    base_sequence: int

    @property
    def region(self) -> Region:
        return self.request.region

    @property
    def frame(self) -> Frame:
        request = self.request
        return Frame(
            region_id=request.region.id,
            entry_id=self.entry_id,
            payload=request.payload,
            kind=FRAME_KINDS[request.batch.op],
            base_seq=self.base_sequence,
            rows=request.batch.rows,
            schema_version=request.schema.version,
        )


def number_writes(
    requests: Sequence[PendingWrite], given: Mapping[Region, Numbers]
) -> tuple[list[NumberedWrite], dict[Region, Numbers]]:
    """Number the writes that are allowed, and answer those that are not; return also the last numbers of each region.

    `given` are the last numbers of regions that have writes in flight.
    """
    last: dict[Region, Numbers] = {}
    numbered = []
    for request in requests:
        region = request.region
        try:
            region.check_writable()
            check_operation(region, request.batch)
            _follow_schema(request)
        except (TsdbError, pa.ArrowException) as error:
            request.done.set_exception(error)
            continue
        entry_id, sequence = last.get(region) or given.get(region) or (region.written.entry_id, region.written.sequence)
        entry_id += not region.version.options.skip_wal
        numbered.append(NumberedWrite(request, entry_id, sequence + 1))
        last[region] = Numbers(entry_id, sequence + request.batch.rows)
    return numbered, last


def apply_write(write: NumberedWrite) -> None:
    """Make the rows of a logged write visible."""
    request, region = write.request, write.request.region
    try:
        region.version.mutable.append(request.batch, write.base_sequence, nbytes=request.nbytes)
    except Exception as error:  # noqa: BLE001 - a bug of the memtable must not cost the region its numbering
        _log.exception("an entry is in the log but not in memory", region=region.id, entry=write.entry_id)
        request.done.set_exception(error)
    # The log has the entry, so the next one must follow it in any case.
    region.written.entry_id = write.entry_id
    region.written.sequence = write.base_sequence + request.batch.rows - 1
    region.written.nbytes += request.nbytes


def _follow_schema(request: PendingWrite) -> None:
    """Bring a batch that was made under an older schema to the current one, and encode it again."""
    region, current = request.region, request.region.version.schema
    if request.schema.version != current.version:
        if request.must_fit or _has_lost_a_type(request.batch, request.schema, current):
            raise SchemaOutdated(region_id=region.id, expected=request.schema.version, current=current.version)
        request.batch = conform_batch(request.batch, request.schema, current)
        request.schema = current
        request.payload = encode_batch(current, request.batch)


def _has_lost_a_type(batch: Batch, written: RegionSchema, current: RegionSchema) -> bool:
    """Whether values could be lost by a cast: such a batch is refused, because what is acknowledged must be there."""
    fields = (written.by_name[name] for name in batch.fields)
    known = ((old, current.by_id[old.id]) for old in fields if old.id in current.by_id)
    return any(old.type != new.type and not can_widen(old.type, new.type) for old, new in known)


def conform_batch(batch: Batch, written: RegionSchema, current: RegionSchema) -> Batch:
    """Show a batch under a later schema: columns by id, widened, defaults for those that are new."""
    fields = {}
    if batch.op is OpType.PUT:
        for column in current.fields:
            old = written.by_id.get(column.id)
            if old is None:
                fields[column.name] = pa.repeat(pa.scalar(column.default, column.type), batch.rows)
            elif old.name in batch.fields:
                fields[column.name] = cast_or_null(batch.fields[old.name], column.type)
    series = conform_series(batch.series, written, current)
    return Batch(series, batch.series_index, batch.times, fields, batch.op)


def check_operation(region: Region, batch: Batch) -> None:
    """Refuse a delete in append mode: every row is kept there."""
    if batch.op is OpType.DELETE and region.version.options.append_mode:
        raise Unsupported("rows of a table in append mode cannot be deleted by key", region_id=region.id)
