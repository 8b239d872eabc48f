"""What the engine counts for `/metrics`; `docs/metrics.md` lists it."""

from tsdb.telemetry import counter, gauge, histogram

REPLAYED_ROWS = gauge("tsdb_engine_recovery_replayed_rows", "Rows replayed from the write-ahead log at startup.")
STALLED_WRITES = counter("tsdb_engine_writes_stalled_total", "Writes that waited for free write buffer memory.")
REJECTED_WRITES = counter(
    "tsdb_engine_writes_rejected_total",
    "Writes refused because the write buffer was full or did not free up in time.",
)
FLUSHES = counter(
    "tsdb_engine_flushes_total", "Finished region flushes; result is success or failure.", labels=("result",)
)
FLUSHED = FLUSHES.labels("success")
FLUSH_FAILED = FLUSHES.labels("failure")
FLUSHED_ROWS = counter("tsdb_engine_flush_rows_total", "Rows written to data files by flushes.")
LATE_ROWS = counter(
    "tsdb_engine_late_rows_total", "Late rows received from nodes whose regions had been taken over without these rows."
)
EXPIRED_FILES = counter("tsdb_engine_expired_files_total", "Data files deleted because all their rows had expired.")
COMPACTIONS = counter(
    "tsdb_engine_compactions_total",
    "Finished region compactions; result is success, failure, or cancelled because the files were "
    "gone, the options of the table changed or a flush needed the thread.",
    labels=("result",),
)
COMPACTED = COMPACTIONS.labels("success")
COMPACTION_FAILED = COMPACTIONS.labels("failure")
COMPACTION_CANCELLED = COMPACTIONS.labels("cancelled")
COMPACTIONS_RUNNING = gauge("tsdb_engine_compactions_running", "Compactions in progress.")
COMPACTED_FILES = counter("tsdb_engine_compaction_files_total", "Data files replaced by compactions.")
COMPACTED_ROWS = counter("tsdb_engine_compaction_rows_total", "Rows written to data files by compactions.")
COMPACTED_READ_BYTES = counter(
    "tsdb_engine_compaction_read_bytes_total", "Bytes of data files replaced by compactions."
)
COMPACTED_WRITTEN_BYTES = counter(
    "tsdb_engine_compaction_written_bytes_total", "Bytes of data files written by compactions."
)
COMPACTIONS_POSTPONED = counter(
    "tsdb_engine_compactions_postponed_total",
    "Postponed compactions, by reason: writes (writers wait for memory), queue (too many are "
    "queued), disk (too little free space).",
    labels=("reason",),
)

FLUSH_SECONDS = histogram("tsdb_engine_flush_elapsed_seconds", "Time that a flush takes to write its data files.")
COMPACTION_SECONDS = histogram(
    "tsdb_engine_compaction_elapsed_seconds", "Time from the start of a compaction to its end."
)

COMPACTION_PAUSED_SECONDS = counter(
    "tsdb_engine_compaction_paused_seconds_total", "Time that compactions paused because writers waited for memory."
)

INDEX_APPLIED = counter("tsdb_engine_index_files_total", "Data files whose inverted indexes were used by queries.")
INDEX_EXCLUDED_SERIES = counter(
    "tsdb_engine_index_series_excluded_total", "Series that queries skipped because of inverted indexes."
)
INDEX_EXCLUDED_ROWS = counter(
    "tsdb_engine_index_rows_excluded_total",
    "Rows that queries skipped because of skipping and full-text indexes.",
)
INDEX_READ_BYTES = counter("tsdb_engine_index_read_bytes_total", "Bytes of index pages that queries read.")
