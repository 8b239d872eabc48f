"""The series registers of an engine: as many as fit, those used longest ago go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from tsdb.engine.scan.queries.series_register import LearnedSource, SeriesRegister
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.view import view_sources
from tsdb.model import MetricView, RegionId, RegionSchema, TimeRange
from tsdb.telemetry import CacheCounts, CacheStatistics, gauge, report_cache
from tsdb.units import Size

REGISTERS_BYTES_MAX = Size.parse("64MiB")
"""What all registers together may take: room for about 250,000 series of ten labels in some sources."""

_BYTES = gauge("tsdb_series_register_bytes", "Memory used by series registers, which PromQL uses.")

_Key = tuple[RegionId, int | None]
"""A region, and the table of the metric engine in it."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedSeries:
    """What a register knows of the sources with rows in a range of time."""

    register: SeriesRegister
    time_range: TimeRange
    sources: Sequence[LearnedSource]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A register and what it is of."""

    register: SeriesRegister
    view: MetricView | None
    schema: RegionSchema

    def is_of(self, view: MetricView | None, schema: RegionSchema) -> bool:
        """Tell whether series still look as they did."""
        same_tags = schema is self.schema or schema.tags_key == self.schema.tags_key
        return same_tags and (view is self.view or view == self.view)


class SeriesRegisters:
    """Registers by table. Safe to use from many threads."""

    def __init__(self, bytes_max: int = REGISTERS_BYTES_MAX) -> None:
        self._full_bytes = bytes_max
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[_Key, _Held] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._counts = CacheCounts()
        report_cache(self, SeriesRegisters.statistics)

    @property
    def nbytes(self) -> int:
        return sum(self._sizes.values())

    def limit_to(self, share: float) -> None:
        """Hold at most this part of the bound from now on."""
        with self._lock:
            self.bytes_max = int(self._full_bytes * share)
            self._evict()

    def __len__(self) -> int:
        return len(self._held)

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return self._counts.of("series_register", self.bytes_max, self.nbytes, len(self._held))

    def learn(
        self,
        region: RegionId,
        view: MetricView | None,
        snapshot: Snapshot,
        time_range: TimeRange,
        *,
        is_selective: bool = False,
    ) -> LearnedSeries | None:
        """Register the series of the sources with visible rows in a range of time; None if a scan has to read them.

        With `is_selective`, sources whose series an index finds are left to a scan; those of a view are few anyway.
        """
        key = (region, None if view is None else view.table_id)
        held = self._find(key, view, snapshot.schema)
        register = held.register
        learned, version = register.learned, register.registered.version
        visible = time_range.intersection(snapshot.visible)
        sources = register.learn(snapshot, visible, is_selective=is_selective and view is None)
        if register.learned != learned:
            has_new_series = register.registered.version != version
            self._weigh(key, held, is_wasteful=has_new_series and register.is_wasteful(snapshot))
        return None if sources is None else LearnedSeries(register, time_range, sources)

    def _find(self, key: _Key, view: MetricView | None, schema: RegionSchema) -> _Held:
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.is_of(view, schema):
                self._counts.hits += 1
            else:
                self._counts.misses += 1
                held = self._held[key] = _Held(_new_register(view, schema), view, schema)
            self._held.move_to_end(key)
            return held

    def _weigh(self, key: _Key, held: _Held, *, is_wasteful: bool) -> None:
        """Keep to the bound after a register has learned something; one that is mostly of the past begins anew."""
        size = held.register.nbytes
        is_unwanted = size > self.bytes_max or is_wasteful
        with self._lock:
            if self._held.get(key) is not held:
                return
            self._sizes[key] = size
            if is_unwanted:
                self._drop(key)
            self._evict()

    def _evict(self) -> None:
        while self._held and self.nbytes > self.bytes_max:
            self._drop(next(iter(self._held)))
            self._counts.evictions += 1
        _BYTES.set(self.nbytes)

    def _drop(self, key: _Key) -> None:
        del self._held[key]
        self._sizes.pop(key, None)


def _new_register(view: MetricView | None, schema: RegionSchema) -> SeriesRegister:
    if view is None:
        return SeriesRegister(schema, lambda source: source)
    return SeriesRegister(*view_sources(schema, view))
