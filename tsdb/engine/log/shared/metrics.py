"""What the shared log counts for `/metrics`; `docs/metrics.md` lists it."""

from tsdb.telemetry import counter, gauge, histogram

PUTS = counter(
    "tsdb_wal_shared_puts_total",
    "Objects of the shared log that were sent, by result: stored, unknown (sent again) or fenced.",
    labels=("result",),
)
STORED = PUTS.labels("stored")
UNKNOWN = PUTS.labels("unknown")
FENCED = PUTS.labels("fenced")
BYTES = counter("tsdb_wal_shared_bytes_total", "Bytes of objects of the shared log that were stored.")
PUT_SECONDS = histogram("tsdb_wal_shared_put_seconds", "Time that storing an object of the shared log takes.")
DELETED = counter("tsdb_wal_shared_deleted_objects_total", "Objects of the shared log that were deleted.")
RETAINED = gauge(
    "tsdb_wal_shared_retained_objects",
    "Objects of the shared log that no region needs and that wal.shared.retention keeps.",
)
RETAINED_BYTES = gauge("tsdb_wal_shared_retained_bytes", "Bytes of these objects.")
OPEN_SECONDS = gauge("tsdb_wal_shared_open_seconds", "Time that sealing and reading older terms took at startup.")
