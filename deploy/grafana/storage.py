"""The dashboard of what is stored and where: files, log, object stores, regions, the cluster."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Row, graph, largest, latency, rate, select, stat, total

STORAGE = Dashboard(
    "tsdb-storage",
    "tsdb storage and cluster",
    "Data files, flushes, compactions, the log, object stores, regions and the cluster of tsdb servers.",
    (
        Row(
            "Data",
            (
                stat("Size", "bytes", total("tsdb_engine_data_bytes")),
                stat("Rows in data files", "short", total("tsdb_engine_data_rows")),
                stat("Damaged files", "none", total("tsdb_engine_quarantined_files")),
                graph(
                    "Regions and files",
                    "none",
                    (total("tsdb_engine_regions"), "regions"),
                    (total("tsdb_engine_data_files"), "data files"),
                ),
                graph("Series in data files", "short", (total("tsdb_engine_data_series"), "series")),
                graph(
                    "Free disk space",
                    "bytes",
                    (f"min by (directory) ({select('tsdb_engine_disk_free_bytes')})", "{{directory}}"),
                ),
            ),
        ),
        Row(
            "Flushes",
            (
                graph("Flushes", "ops", (rate("tsdb_engine_flushes_total", "result"), "{{result}}")),
                graph("Rows flushed", "wps", (rate("tsdb_engine_flush_rows_total"), "rows")),
                latency("Time of a flush", "tsdb_engine_flush_elapsed_seconds"),
            ),
        ),
        Row(
            "Compactions",
            (
                graph("Compactions", "ops", (rate("tsdb_engine_compactions_total", "result"), "{{result}}")),
                graph(
                    "Bytes",
                    "Bps",
                    (rate("tsdb_engine_compaction_read_bytes_total"), "read"),
                    (rate("tsdb_engine_compaction_written_bytes_total"), "written"),
                ),
                latency("Time of a compaction", "tsdb_engine_compaction_elapsed_seconds"),
                graph("Running", "none", (total("tsdb_engine_compactions_running"), "running")),
                graph("Postponed", "ops", (rate("tsdb_engine_compactions_postponed_total", "reason"), "{{reason}}")),
                graph("Expired files", "ops", (rate("tsdb_engine_expired_files_total"), "deleted")),
            ),
        ),
        Row(
            "Log",
            (
                graph("Write-ahead log on disk", "bytes", (total("tsdb_engine_wal_bytes"), "size")),
                graph("Rows replayed at the start", "none", (total("tsdb_engine_recovery_replayed_rows"), "rows")),
                graph("Shared log: objects", "ops", (rate("tsdb_wal_shared_puts_total", "result"), "{{result}}")),
                graph("Shared log: not shipped", "bytes", (total("tsdb_wal_shared_unshipped_bytes"), "bytes")),
                graph("Shared log: lag", "s", (largest("tsdb_wal_shared_lag_seconds"), "oldest entry")),
                latency("Shared log: time of an object", "tsdb_wal_shared_put_seconds"),
            ),
        ),
        Row(
            "Object store",
            (
                graph(
                    "Requests",
                    "reqps",
                    (rate("tsdb_store_requests_total", "store", "operation"), "{{store}} {{operation}}"),
                ),
                graph("Requests by purpose", "reqps", (rate("tsdb_store_requests_total", "purpose"), "{{purpose}}")),
                graph("Bytes", "Bps", (rate("tsdb_store_request_bytes_total", "operation"), "{{operation}}")),
                graph(
                    "Errors and retries",
                    "reqps",
                    (rate("tsdb_store_request_errors_total", "operation"), "{{operation}} failed"),
                    (rate("tsdb_store_request_retries_total", "operation"), "{{operation}} repeated"),
                ),
                graph(
                    "File cache",
                    "bytes",
                    (total("tsdb_engine_cache_bytes", cache="file"), "size"),
                    (total("tsdb_engine_cache_capacity_bytes", cache="file"), "capacity"),
                ),
                graph(
                    "File cache: trouble",
                    "none",
                    (rate("tsdb_engine_cache_errors_total", cache="file"), "errors per second"),
                    (largest("tsdb_engine_cache_suspended", "cache"), "{{cache}} suspended"),
                ),
            ),
        ),
        Row(
            "Cluster",
            (
                stat("Leading metasrv", "none", total("tsdb_meta_leader"), meaning="One, except for a moment."),
                stat("Suspected datanodes", "none", largest("tsdb_meta_suspected_nodes")),
                stat("Failover braked", "none", largest("tsdb_meta_failover_braked")),
                graph("Live nodes", "none", (largest("tsdb_meta_live_nodes", "role"), "{{role}}")),
                graph(
                    "Regions moved",
                    "ops",
                    (rate("tsdb_meta_regions_moved_total", "reason"), "{{reason}}"),
                    (rate("tsdb_meta_regions_not_moved_total", "reason"), "{{reason}} given up"),
                ),
                graph(
                    "Changes of the metadata",
                    "ops",
                    (rate("tsdb_meta_procedures_total", "kind"), "{{kind}}"),
                    (rate("tsdb_meta_procedures_failed_total", "kind"), "{{kind}} failed"),
                ),
                graph("Changes waiting", "none", (total("tsdb_meta_procedures_waiting"), "waiting")),
                graph("Heartbeats without an answer", "ops", (rate("tsdb_meta_heartbeats_failed_total"), "failed")),
                graph(
                    "Requests of other nodes",
                    "none",
                    (total("tsdb_region_server_running"), "running"),
                    (total("tsdb_region_server_waiting"), "waiting"),
                    (total("tsdb_region_server_streams"), "streams"),
                    (total("tsdb_region_server_readers"), "readers"),
                ),
            ),
        ),
        Row(
            "etcd",
            (
                graph(
                    "Requests",
                    "reqps",
                    (rate("tsdb_etcd_requests_total", "method", "outcome"), "{{method}} {{outcome}}"),
                ),
                latency("Latency", "tsdb_etcd_request_seconds", "method"),
                graph(
                    "Trouble",
                    "ops",
                    (rate("tsdb_etcd_unknown_outcomes_total"), "unknown outcomes"),
                    (rate("tsdb_etcd_watch_resets_total"), "watches begun anew"),
                ),
            ),
        ),
    ),
)
