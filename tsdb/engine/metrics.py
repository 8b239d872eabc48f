"""What the engine counts for `/metrics`; `docs/metrics.md` lists it."""

from tsdb.telemetry import counter, gauge, histogram

REPLAYED_ROWS = gauge("tsdb_engine_recovery_replayed_rows", "Rows replayed from the log since the process started.")
STALLED_WRITES = counter("tsdb_engine_writes_stalled_total", "Writes that had to wait for memory.")
REJECTED_WRITES = counter(
    "tsdb_engine_writes_rejected_total",
    "Writes refused because the write buffer was full, or because they waited too long for memory.",
)
FLUSHES = counter("tsdb_engine_flushes_total", "Flushes of a region that ended.", labels=("result",))
FLUSHED = FLUSHES.labels("success")
FLUSH_FAILED = FLUSHES.labels("failure")
FLUSHED_ROWS = counter("tsdb_engine_flush_rows_total", "Rows written to data files by flushes.")
LATE_ROWS = counter(
    "tsdb_engine_late_rows_total", "Rows that nodes handed in whose regions had been taken over without them."
)
EXPIRED_FILES = counter("tsdb_engine_expired_files_total", "Data files removed because all their rows had expired.")
COMPACTIONS = counter("tsdb_engine_compactions_total", "Compactions of a region that ended.", labels=("result",))
COMPACTED = COMPACTIONS.labels("success")
COMPACTION_FAILED = COMPACTIONS.labels("failure")
COMPACTION_CANCELLED = COMPACTIONS.labels("cancelled")
COMPACTIONS_RUNNING = gauge("tsdb_engine_compactions_running", "Compactions that are under way.")
COMPACTED_FILES = counter("tsdb_engine_compaction_files_total", "Data files that compactions replaced.")
COMPACTED_ROWS = counter("tsdb_engine_compaction_rows_total", "Rows written to data files by compactions.")
COMPACTED_READ_BYTES = counter("tsdb_engine_compaction_read_bytes_total", "Bytes of data files that were replaced.")
COMPACTED_WRITTEN_BYTES = counter(
    "tsdb_engine_compaction_written_bytes_total", "Bytes of data files written by compactions."
)
COMPACTIONS_POSTPONED = counter(
    "tsdb_engine_compactions_postponed_total",
    "Times that compactions were put off, by reason: writes (writers wait for memory), queue (too many wait), disk"
    " (too little free space).",
    labels=("reason",),
)

FLUSH_SECONDS = histogram("tsdb_engine_flush_elapsed_seconds", "Time that a flush takes to write its data files.")
COMPACTION_SECONDS = histogram(
    "tsdb_engine_compaction_elapsed_seconds", "Time from the start of a compaction to its end."
)

COMPACTION_PAUSED_SECONDS = counter(
    "tsdb_engine_compaction_paused_seconds_total", "Time that compactions paused because writers waited for memory."
)

INDEX_APPLIED = counter("tsdb_engine_index_files_total", "Data files of which queries used an inverted index.")
INDEX_EXCLUDED_SERIES = counter(
    "tsdb_engine_index_series_excluded_total", "Series that queries need not look at because of inverted indexes."
)
INDEX_EXCLUDED_ROWS = counter(
    "tsdb_engine_index_rows_excluded_total",
    "Rows that queries need not read because of skipping and full-text indexes.",
)
INDEX_READ_BYTES = counter("tsdb_engine_index_read_bytes_total", "Bytes of index pages that queries read.")
