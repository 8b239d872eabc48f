"""Metrics of backups."""

from __future__ import annotations

from tsdb.telemetry import counter, gauge

RUNS = counter("tsdb_backups_total", "Backups that ended: done, failed or cancelled.", labels=("result",))
COPIED_FILES = counter("tsdb_backup_copied_files_total", "Files copied to destinations of backups.")
COPIED_BYTES = counter("tsdb_backup_copied_bytes_total", "Bytes of files copied to destinations of backups.")
LAST_SUCCESS = gauge(
    "tsdb_backup_last_success_seconds",
    "Start of the last completed backup, in seconds since 1970; 0 if there was none.",
)
