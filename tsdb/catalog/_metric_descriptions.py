"""What metrics say about themselves, kept beside the catalog: type, unit and help, as senders describe them.

Senders repeat themselves: Prometheus sends all it knows every minute, and others with every series. So everything is in
memory, what is known already costs a look-up, and only news is written.

- A description is durable when `keep` returns.
- Two programs may describe one metric differently: a metric keeps the last `VARIANTS_MAX` descriptions, the newest
  first. When more of them alternate than that, it stops to listen after `CHANGES_MAX` changes, until a restart.
- There is a bound for how many metrics are described and for their texts; beyond it, new metrics stay undescribed.
- Descriptions are read at first use. One that cannot be read is left out: nothing depends on it.
- Over a copy of the metadata of a cluster (`MirrorKv`), everything that is known comes from the copy: also what others
  keep and forget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from tsdb.catalog._codec import decode, encode
from tsdb.catalog._errors import CatalogCorrupted
from tsdb.catalog._keys import METRICS, metric_key, split_metric_key
from tsdb.kv import OPERATIONS_MAX, DeleteKey, KvStore, MirrorKv, Operation, PutKey
from tsdb.model import MetricDescription
from tsdb.telemetry import counter, gauge, get_logger

METRICS_MAX = 100_000
"""How many metrics are described, in all databases together."""
TEXT_CHARS_MAX = 64 << 20
"""How many characters all descriptions may have together."""
HELP_CHARS_MAX, UNIT_CHARS_MAX, NAME_CHARS_MAX = 1024, 64, 512
"""Longer texts are cut; metrics with longer names stay undescribed."""
VARIANTS_MAX = 4
"""How many descriptions one metric keeps."""
CHANGES_MAX = 64
"""How often the description of one metric changes in the life of a process."""

_DESCRIBED = gauge("tsdb_metric_descriptions", "Metrics with stored metadata (type, unit, help); at most 100,000.")
_REFUSED = counter(
    "tsdb_metric_descriptions_refused_total",
    "Metric metadata that was not stored, because of the limit or because it changes too often.",
)
_log = get_logger("tsdb.catalog")

Variants: TypeAlias = tuple[MetricDescription, ...]


class MetricDescriptions:
    """The descriptions of all databases. Readers never wait; changes are made one at a time."""

    def __init__(
        self,
        kv: KvStore,
        has_database: Callable[[str], bool],
        *,
        metrics_max: int = METRICS_MAX,
        text_chars_max: int = TEXT_CHARS_MAX,
    ) -> None:
        self._kv = kv
        self._has_database = has_database
        self._metrics_max, self._text_chars_max = metrics_max, text_chars_max
        self._changing = threading.Lock()
        self._known: dict[str, dict[str, Variants]] = {}
        self._is_loaded = False
        self._metrics = self._chars = 0
        self._changes: dict[tuple[str, str], int] = {}
        self._is_full = False
        self._is_following = isinstance(kv, MirrorKv)
        if isinstance(kv, MirrorKv):
            self._is_loaded = True
            kv.subscribe([METRICS], self._follow)

    def of(self, database: str) -> Mapping[str, Variants]:
        """Return what is known about the metrics of a database, the newest description of each first."""
        return dict(self._loaded().get(database, {}))

    def keep(self, database: str, described: Iterable[tuple[str, MetricDescription]]) -> None:
        """Remember descriptions; what is known already costs nothing."""
        known = self._loaded().get(database, {})
        news: dict[str, dict[MetricDescription, None]] = {}
        for metric, description in described:
            cut = _cut(description)
            if cut not in known.get(metric, ()):
                news.setdefault(metric, {})[cut] = None
        if news:
            with self._changing:
                self._keep(database, news)

    def forget(self, database: str) -> None:
        """Remove what is known about a database that is gone."""
        with self._changing:
            self._delete([key for key, _ in self._kv.scan(metric_key(database, ""))])
            gone = self._known.get(database, {})
            for metric in list(gone):
                self._changes.pop((database, metric), None)
                if not self._is_following:
                    self._show(database, metric, ())
            self._is_full = False

    def forget_lost(self) -> None:
        """Remove what is kept about databases that are gone: a crash came between their end and its own."""
        with self._changing:
            keys = [key for key, _ in self._kv.scan(METRICS)]
            self._delete([key for key in keys if not self._has_database(split_metric_key(key)[0])])

    def _keep(self, database: str, news: Mapping[str, Mapping[MetricDescription, None]]) -> None:
        if not self._has_database(database):
            return
        known = self._loaded_here().get(database, {})
        described = known.keys() & news.keys()
        planned: dict[str, Variants] = {}
        for metric, variants in news.items():
            was = known.get(metric, ())
            fresh = [each for each in variants if each not in was]
            if fresh and self._has_room(database, metric, was, planned):
                planned[metric] = (*reversed(fresh), *was)[:VARIANTS_MAX]
        metrics = list(planned)
        for start in range(0, len(metrics), OPERATIONS_MAX):
            piece = metrics[start : start + OPERATIONS_MAX]
            self._kv.transact([], [PutKey(metric_key(database, each), _encode(planned[each])) for each in piece])
            for metric in piece:
                if metric in described:
                    self._changes[database, metric] = self._changes.get((database, metric), 0) + 1
                # A copy shows a change before the transaction returns, and only its thread changes what is known.
                if not self._is_following:
                    self._show(database, metric, planned[metric])

    def _show(self, database: str, metric: str, variants: Variants) -> None:
        """Let a metric have these descriptions from now on, or none; the only place that changes what is known."""
        known = self._known.setdefault(database, {})
        was = known.pop(metric, ())
        self._metrics += bool(variants) - bool(was)
        self._chars += (_size(metric, variants) if variants else 0) - (_size(metric, was) if was else 0)
        if variants:
            known[metric] = variants
        _DESCRIBED.set(self._metrics)

    def _follow(self, changed: Mapping[str, bytes | None]) -> None:
        """Take over what the copy of the metadata shows; called by its thread alone."""
        for key, value in changed.items():
            database, metric = split_metric_key(key)
            self._show(database, metric, () if value is None else _read(key, value))

    def _has_room(self, database: str, metric: str, was: Variants, planned: Mapping[str, Variants]) -> bool:
        if was:
            has_room = self._changes.get((database, metric), 0) < CHANGES_MAX
        else:
            is_name = 0 < len(metric) <= NAME_CHARS_MAX
            has_room = is_name and self._metrics + len(planned) < self._metrics_max
        if has_room and self._chars < self._text_chars_max:
            return True
        _REFUSED.inc()
        if not self._is_full:
            self._is_full = True
            _log.warning("the metadata of some metrics is not stored: its number and size are limited", metric=metric)
        return False

    def _loaded(self) -> dict[str, dict[str, Variants]]:
        if self._is_loaded:
            return self._known
        with self._changing:
            return self._loaded_here()

    def _loaded_here(self) -> dict[str, dict[str, Variants]]:
        """Read everything, once; the caller has the lock."""
        if not self._is_loaded:
            lost = []
            for key, value in self._kv.scan(METRICS):
                database, metric = split_metric_key(key)
                if not self._has_database(database):
                    # A crash came between the end of its database and its own.
                    lost.append(key)
                else:
                    self._show(database, metric, _read(key, value))
            self._delete(lost)
            self._is_loaded = True
        return self._known

    def _delete(self, keys: list[str]) -> None:
        for start in range(0, len(keys), OPERATIONS_MAX):
            operations: list[Operation] = [DeleteKey(key) for key in keys[start : start + OPERATIONS_MAX]]
            self._kv.transact([], operations)


def _cut(description: MetricDescription) -> MetricDescription:
    kind, unit, text = description
    if len(unit) <= UNIT_CHARS_MAX and len(text) <= HELP_CHARS_MAX:
        return description
    return MetricDescription(kind, unit[:UNIT_CHARS_MAX], text[:HELP_CHARS_MAX])


def _size(metric: str, variants: Variants) -> int:
    return len(metric) + sum(len(each.unit) + len(each.help) for each in variants)


def _read(key: str, value: bytes) -> Variants:
    try:
        return decode(key, value, _variants)
    except CatalogCorrupted as error:
        _log.warning("the description of a metric cannot be read", error=error)
        return ()


def _encode(variants: Variants) -> bytes:
    return encode([{"type": each.kind, "unit": each.unit, "help": each.help} for each in variants])


def _variants(value: list[dict[str, Any]]) -> Variants:
    return tuple(MetricDescription(str(each["type"]), str(each["unit"]), str(each["help"])) for each in value)
