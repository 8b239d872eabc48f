"""Writing: from requests to the log and the memtables. Runs in a turn of the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tsdb.engine.entry import FRAME_KINDS, encode_batch
from tsdb.engine.errors import SchemaOutdated
from tsdb.engine.log import Frame, LogStore
from tsdb.engine.region.region import Region
from tsdb.engine.region.worker import PendingWrite
from tsdb.engine.rows.series import conform_series
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.model import Batch, OpType, RegionSchema, Semantic, can_widen, cast_or_null
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")


@dataclass(slots=True, eq=False)
class _Planned:
    """A request with the numbers it gets if the log takes it."""

    request: PendingWrite
    entry_id: int
    base_sequence: int


def commit_writes(requests: Sequence[PendingWrite], wal: LogStore, after: Callable[[set[Region]], None]) -> None:
    """Log and apply writes; each request is answered, well or with an error that says why not."""
    planned = _plan(requests)
    frames = [_frame(each) for each in planned if not each.request.region.version.options.skip_wal]
    try:
        if frames:
            wal.append(frames).result()
    except TsdbError as error:
        # Nothing was numbered yet: the next entries take the place of these.
        for each in planned:
            each.request.done.set_exception(error)
        return
    for each in planned:
        _apply(each)
    for each in planned:
        if not each.request.done.done():
            each.request.done.set_result(each.request.batch.rows)
    after({each.request.region for each in planned})


def _plan(requests: Sequence[PendingWrite]) -> list[_Planned]:
    """Number the writes that are allowed; answer those that are not."""
    entries: dict[Region, int] = {}
    sequences: dict[Region, int] = {}
    planned = []
    for request in requests:
        region = request.region
        try:
            region.check_writable()
            check_operation(region, request.batch)
            _follow_schema(request)
        except (TsdbError, pa.ArrowException) as error:
            request.done.set_exception(error)
            continue
        logged = not region.version.options.skip_wal
        entries[region] = entries.get(region, region.written.entry_id) + (1 if logged else 0)
        base = sequences.get(region, region.written.sequence) + 1
        sequences[region] = base + request.batch.rows - 1
        planned.append(_Planned(request, entries[region], base))
    return planned


def _frame(planned: _Planned) -> Frame:
    request = planned.request
    return Frame(
        region_id=request.region.id,
        entry_id=planned.entry_id,
        payload=request.payload,
        kind=FRAME_KINDS[request.batch.op],
        base_seq=planned.base_sequence,
        rows=request.batch.rows,
        schema_version=request.schema.version,
    )


def _apply(planned: _Planned) -> None:
    request, region = planned.request, planned.request.region
    try:
        region.version.mutable.append(request.batch, planned.base_sequence, nbytes=request.nbytes)
    except Exception as error:  # noqa: BLE001 - a bug of the memtable must not cost the region its numbering
        _log.exception("an entry is in the log but not in memory", region=region.id, entry=planned.entry_id)
        request.done.set_exception(error)
    # The log has the entry, so the next one must follow it in any case.
    region.written.entry_id = planned.entry_id
    region.written.sequence = planned.base_sequence + request.batch.rows - 1
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


def check_batch(schema: RegionSchema, batch: Batch) -> None:
    """Refuse a batch that does not fit its region, before it changes anything."""
    _check_series(schema, batch)
    if batch.op is OpType.DELETE and batch.fields:
        raise InvalidArguments("a delete names keys and has no fields", columns=list(batch.fields))
    for name, values in batch.fields.items():
        column = schema.by_name.get(name)
        if column is None or column.semantic is not Semantic.FIELD:
            raise InvalidArguments("the region has no such field", column=name)
        if values.type != column.type:
            raise InvalidArguments(
                "the column has another type", column=name, expected=str(column.type), received=str(values.type)
            )
        if not column.nullable and values.null_count:
            raise InvalidArguments("the column may not be null", column=name)
    if batch.op is OpType.PUT:
        for column in schema.fields:
            if not column.nullable and column.name not in batch.fields:
                raise InvalidArguments("the column may not be null and is missing", column=column.name)


def _check_series(schema: RegionSchema, batch: Batch) -> None:
    received = batch.series.tags_schema
    if not received.equals(schema.arrow_tags):
        names = [tag.name for tag in schema.tags]
        if received.names != names:
            raise InvalidArguments("the batch has other tags than the region", expected=names, received=received.names)
        for tag, kind in zip(schema.tags, received.types, strict=True):
            if kind != tag.type:
                raise InvalidArguments(
                    "the column has another type", column=tag.name, expected=str(tag.type), received=str(kind)
                )
    if batch.rows and int(np.maximum.reduce(batch.series_index)) >= len(batch.series):
        raise InvalidArguments(
            "a row names a series that the batch does not have",
            series=len(batch.series),
            received=int(batch.series_index.max()),
        )
