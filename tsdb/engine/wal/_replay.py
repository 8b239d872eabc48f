"""Reading entries back: one pass over all segments, for all regions at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from tsdb.engine.errors import StorageUnavailable, WalCorrupted
from tsdb.engine.log.frame import FrameHeader, FrameKind, ReplayedFrame, decode_payload
from tsdb.engine.log.index import LogIndex
from tsdb.engine.log.purge import SegmentState
from tsdb.engine.wal._recover import RecoveredLog
from tsdb.engine.wal._segment import ScannedFrame, SegmentReader, scan, segment_path
from tsdb.store import Files

_log = logging.getLogger("tsdb.wal")
_BATCH_BYTES_MAX = 32 << 20


class Replay:
    """Iterate over it for lists of frames, in the order in which they were written.

    `quarantined` says which regions must not be opened, and why: entries above their floor are lost, or nothing
    proves that they are not. Their frames are not replayed. Ask `quarantine_reason` about regions of which the log
    holds nothing. Only what the log held when it was opened is replayed, so appending may begin before the replay is
    done.
    """

    def __init__(
        self,
        recovered: RecoveredLog,
        after: Mapping[int, int],
        *,
        directory: Path,
        files: Files,
        index: LogIndex,
        batch_frames_max: int,
        skip_corrupt: bool,
    ) -> None:
        self._recovered = recovered
        self._directory = directory
        self._files = files
        self._index = index
        self._batch_frames_max = batch_frames_max
        self._skip_corrupt = skip_corrupt
        self._after = after
        self._floors = {region_id: after.get(region_id) for region_id in recovered.continuity.last_entries()}
        self.lost = self._judge()
        """Regions with lost entries. In repair mode they are replayed as far as possible."""
        self.quarantined = {} if skip_corrupt else dict(self.lost)
        self._tell_index()

    def quarantine_reason(self, region_id: int) -> str | None:
        """Why a region must not be opened; None if all of its entries are here or flushed."""
        if self._skip_corrupt:
            return None
        floor = self._after.get(region_id)
        return None if floor is None else self._recovered.continuity.reason(region_id, floor)

    def regions(self) -> list[int]:
        return [each for each, last in self._recovered.continuity.last_entries().items() if self._needs(each, last)]

    def __iter__(self) -> Iterator[list[ReplayedFrame]]:
        batch: list[ReplayedFrame] = []
        batch_bytes = 0
        for frame in self._frames():
            batch.append(frame)
            batch_bytes += frame.payload.size
            if len(batch) >= self._batch_frames_max or batch_bytes >= _BATCH_BYTES_MAX:
                yield batch
                batch, batch_bytes = [], 0
        if batch:
            yield batch

    def _judge(self) -> dict[int, str]:
        lost = {}
        for region_id, floor in self._floors.items():
            reason = None if floor is None else self._recovered.continuity.reason(region_id, floor)
            if reason is not None:
                lost[region_id] = reason
        return lost

    def _tell_index(self) -> None:
        corruptions = self._recovered.report.corruptions if self.quarantined else ()
        held_from = min((found.segment for found in corruptions), default=None)
        self._index.quarantine(frozenset(self.quarantined), held_from=held_from)
        for region_id, floor in self._floors.items():
            if floor is None:
                self._index.forget(region_id)
            else:
                self._index.set_flushed(region_id, floor)
        for region_id, reason in self.lost.items():
            outcome = "replayed without them" if self._skip_corrupt else "quarantined"
            _log.error("region %d is %s: %s", region_id, outcome, reason)

    def _frames(self) -> Iterator[ReplayedFrame]:
        reached = {region_id: floor for region_id, floor in self._floors.items() if floor is not None}
        for segment in self._recovered.segments:
            try:
                for frame in self._frames_of(segment, reached):
                    reached[frame.region_id] = frame.entry_id
                    yield frame
            except OSError as error:
                raise StorageUnavailable(
                    f"cannot read {segment_path(self._directory, segment.number)}: {error.strerror or error}"
                ) from error
        self._check_complete(reached)

    def _frames_of(self, segment: SegmentState, reached: dict[int, int]) -> Iterator[ReplayedFrame]:
        if not any(self._needs(region_id, last) for region_id, last in segment.max_entries.items()):
            return
        try:
            reader = SegmentReader(self._files, self._directory, segment.number)
        except FileNotFoundError:
            if self._index.holds_segment(segment.number):
                raise
            # Purged since the log was opened, because all that it held is flushed.
            reached.update(segment.max_entries)
            return

        def wants(offset: int, header: FrameHeader) -> bool:
            if header.kind not in (FrameKind.DATA, FrameKind.DELETE):
                return False
            dropped_at = self._recovered.dropped_at.get(header.region_id)
            if dropped_at is not None and (segment.number, offset) < dropped_at:
                return False
            return self._needs(header.region_id, header.entry_id)

        with reader:
            for item in scan(reader, end=segment.size_bytes, wants=wants):
                if isinstance(item, ScannedFrame):
                    yield from self._decode(segment, item, reached)

    def _needs(self, region_id: int, entry_id: int) -> bool:
        floor = self._floors.get(region_id)
        return floor is not None and entry_id > floor and region_id not in self.quarantined

    def _decode(self, segment: SegmentState, item: ScannedFrame, reached: dict[int, int]) -> Iterator[ReplayedFrame]:
        header = item.header
        if not self._skip_corrupt and (item.stored is None or header.entry_id != reached[header.region_id] + 1):
            raise self._changed(header.region_id, header.entry_id, segment.number)
        if item.stored is not None:
            yield ReplayedFrame(
                region_id=header.region_id,
                entry_id=header.entry_id,
                payload=decode_payload(item.stored, codec=header.codec, raw_bytes=header.raw_bytes),
                kind=FrameKind(header.kind),
                base_seq=header.base_seq,
                rows=header.rows,
                schema_version=header.schema_version,
            )

    def _check_complete(self, reached: dict[int, int]) -> None:
        """What the verdict promised when the log was opened must have been found again."""
        if self._skip_corrupt:
            return
        last_entries = self._recovered.continuity.last_entries()
        for region_id, last in last_entries.items():
            if self._needs(region_id, last) and reached[region_id] < last:
                raise self._changed(region_id, last, None)

    def _changed(self, region_id: int, entry_id: int, segment: int | None) -> WalCorrupted:
        where = {} if segment is None else {"segment": f"{segment:016x}"}
        return WalCorrupted(
            f"entry {entry_id} was intact when the log was opened and is damaged now",
            region_id=region_id,
            **where,
            hint="check the disk and restart",
        )
