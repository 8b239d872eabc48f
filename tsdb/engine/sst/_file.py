"""A data file as a source: what is known of it without reading rows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from tsdb.engine.manifest import FileMeta
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.rows.source import Counters, SourceFacts
from tsdb.engine.sst._content import FileContent, OnDamage, ignore_damage
from tsdb.engine.sst._file_reader import FileReader
from tsdb.engine.sst._footer import Footer
from tsdb.engine.sst._policy import Cached, Passing
from tsdb.engine.sst._row_skipper import fulltext_columns, skipping_columns
from tsdb.engine.sst._series_finder import indexed_tags
from tsdb.engine.sst._verify import verify_file
from tsdb.model import RegionSchema
from tsdb.store import LocalCopy, ObjectStore


class DataFile:
    """A `Source` over one data file: immutable, safe for many threads.

    A region has one of these for every file, perhaps thousands: what is read of a file is in the caches, not here.
    """

    __slots__ = ("__weakref__", "_cached", "_caches", "_content", "applies_index", "facts", "meta")

    def __init__(
        self,
        meta: FileMeta,
        *,
        store: ObjectStore,
        directory: str,
        caches: Caches,
        applies_index: bool = True,
        on_damage: OnDamage = ignore_damage,
    ) -> None:
        """Without `applies_index`, only the series block of the index file is used.

        `on_damage` is told why the file cannot be read.
        """
        self.meta = meta
        self.applies_index = applies_index
        self.facts = SourceFacts(
            rows=meta.rows,
            time_range=meta.time_range,
            sequence_min=meta.sequence_min,
            sequence_max=meta.sequence_max,
            has_tombstones=meta.has_tombstones,
            is_unique=meta.is_unique,
            is_indexed=applies_index and bool(indexed_tags(meta)),
            skips_rows=applies_index and bool(skipping_columns(meta) or fulltext_columns(meta)),
        )
        self._content = FileContent(meta, store, directory, on_damage)
        self._caches = caches
        self._cached = Cached(caches)

    def with_caches(self, caches: Caches) -> DataFile:
        """Return the same file, of which nothing is taken from other caches or left in them."""
        file = copy(self)
        file._caches, file._cached = caches, Cached(caches)
        return file

    @property
    def directory(self) -> str:
        """Where in the store it is."""
        return self._content.directory

    @property
    def footer(self) -> Footer:
        return self._cached.footer(self._content)

    @property
    def schema(self) -> RegionSchema:
        return self.footer.schema

    @property
    def block(self) -> SeriesBlock:
        return self._cached.block(self._content, lambda: self.footer)

    def local_copy(self) -> LocalCopy | None:
        """Return where it is on this machine, to be read by another process; None if it is not."""
        return self._content.local_copy()

    def note_damage(self, reason: str) -> None:
        """Tell of damage that another process has found where `local_copy` said."""
        self._content.note_elsewhere(reason)

    def reader(self, counters: Counters | None = None) -> FileReader:
        """Return a reader for one scan; it adds what it found decoded and what it had to read to `counters`."""
        return FileReader(self._content, self.facts, self._cached, counters)

    def passing_reader(self) -> FileReader:
        """Return a reader that goes through the file once and leaves no trace in the caches."""
        return FileReader(self._content, self.facts, Passing(self._caches), None)

    def verify(self, check: Callable[[], None]) -> str | None:
        """Read everything and compare it with what is known; return what is wrong with the index, if something is.

        FileCorrupted if something is wrong with the file. `check` is called between row groups and ends it by raising.
        """
        return verify_file(self._content, check)
