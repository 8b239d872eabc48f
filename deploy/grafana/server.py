"""The dashboard of what a server does: requests, ingestion, queries, memory, caches."""

from __future__ import annotations

from deploy.grafana.panels import Dashboard, Row, graph, largest, latency, rate, select, stat, total

_HITS = rate("tsdb_engine_cache_hits_total", "cache")
_CAPACITY = total("tsdb_engine_cache_capacity_bytes", "cache")

SERVER = Dashboard(
    "tsdb-server",
    "tsdb server",
    "Requests, ingestion, queries, memory and caches of tsdb servers.",
    (
        Row(
            "Overview",
            (
                stat(
                    "Servers", "none", f"count by (app, version) ({select('tsdb_app_version')})", "{{app}} {{version}}"
                ),
                stat("Rows written", "wps", rate("tsdb_ingest_rows_total")),
                stat("Statements", "reqps", rate("tsdb_database_statements_total")),
                stat("Failed statements", "reqps", rate("tsdb_database_statements_total", outcome="error")),
                stat("Memory", "bytes", total("tsdb_memory_held_bytes")),
                stat("Time since the start", "s", f"min(time() - {select('process_start_time_seconds')})"),
            ),
        ),
        Row(
            "HTTP",
            (
                graph("Requests", "reqps", (rate("tsdb_servers_http_requests_total", "path"), "{{path}}")),
                graph("Responses by code", "reqps", (rate("tsdb_servers_http_requests_total", "code"), "{{code}}")),
                latency("Latency", "tsdb_servers_http_requests_elapsed_seconds", "path"),
            ),
        ),
        Row(
            "Other protocols",
            (
                graph(
                    "gRPC calls",
                    "reqps",
                    (rate("tsdb_servers_grpc_requests_total", "method", "code"), "{{method}} {{code}}"),
                ),
                latency("gRPC latency", "tsdb_servers_grpc_requests_elapsed_seconds", "method"),
                graph(
                    "Statements of MySQL and PostgreSQL clients",
                    "reqps",
                    (rate("tsdb_servers_mysql_queries_total", "outcome"), "MySQL {{outcome}}"),
                    (rate("tsdb_servers_postgres_statements_total", "outcome"), "PostgreSQL {{outcome}}"),
                ),
                graph(
                    "Connections",
                    "none",
                    *(
                        (total(f"tsdb_servers_{name}_connections"), label)
                        for name, label in (
                            ("http", "HTTP"),
                            ("grpc", "gRPC"),
                            ("mysql", "MySQL"),
                            ("postgres", "PostgreSQL"),
                            ("opentsdb", "OpenTSDB"),
                        )
                    ),
                ),
                graph(
                    "In progress",
                    "none",
                    (total("tsdb_servers_http_requests_in_flight"), "HTTP requests"),
                    (total("tsdb_servers_grpc_requests_in_flight"), "gRPC calls"),
                ),
                graph(
                    "Refused connections",
                    "cps",
                    (rate("tsdb_servers_mysql_connections_refused_total"), "MySQL"),
                    (rate("tsdb_servers_postgres_refused_total", "reason"), "PostgreSQL {{reason}}"),
                ),
            ),
        ),
        Row(
            "Ingestion",
            (
                graph("Rows written", "wps", (rate("tsdb_ingest_rows_total", "protocol"), "{{protocol}}")),
                graph(
                    "Rows refused",
                    "wps",
                    (rate("tsdb_ingest_rejected_rows_total", "protocol", "reason"), "{{protocol}} {{reason}}"),
                    meaning="information_schema.ingest_rejections has the last ones with their messages.",
                ),
                graph(
                    "Write buffer",
                    "bytes",
                    (total("tsdb_engine_write_buffer_bytes"), "rows not in data files yet"),
                    (total("tsdb_engine_kept_series_bytes"), "of that, kept series"),
                ),
                graph(
                    "Writes that waited or were refused",
                    "wps",
                    (rate("tsdb_engine_writes_stalled_total"), "waited for memory"),
                    (rate("tsdb_engine_writes_rejected_total"), "refused"),
                ),
                graph(
                    "Series of remote write that are known", "none", (total("tsdb_prometheus_known_series"), "series")
                ),
            ),
        ),
        Row(
            "Queries",
            (
                graph(
                    "Statements",
                    "reqps",
                    (rate("tsdb_database_statements_total", "kind", "outcome"), "{{kind}} {{outcome}}"),
                ),
                latency("Statement time", "tsdb_database_statement_elapsed_seconds", "kind"),
                graph("Slow statements", "reqps", (rate("tsdb_database_slow_queries_total"), "slow")),
                graph(
                    "Scheduler",
                    "none",
                    (total("tsdb_servers_queries_running"), "running"),
                    (total("tsdb_servers_queries_waiting"), "waiting"),
                ),
                latency("Time waited for a turn", "tsdb_servers_queries_waiting_seconds"),
                graph(
                    "Refused because of load",
                    "reqps",
                    (rate("tsdb_servers_queries_refused_total", "reason"), "{{reason}}"),
                ),
                graph(
                    "Queries given to fast workers",
                    "reqps",
                    (rate("tsdb_servers_fast_queries_total", "outcome"), "{{outcome}}"),
                ),
                graph("PromQL samples held", "none", (total("tsdb_promql_samples_held"), "samples")),
                graph(
                    "Labels held for PromQL",
                    "bytes",
                    (total("tsdb_promql_series_index_bytes"), "series index"),
                    (total("tsdb_series_register_bytes"), "series registers"),
                    (total("tsdb_metric_decoded_labels_bytes"), "decoded labels"),
                ),
            ),
        ),
        Row(
            "Memory and process",
            (
                graph(
                    "Memory",
                    "bytes",
                    (total("tsdb_memory_held_bytes"), "held, with workers"),
                    (total("tsdb_memory_limit_bytes"), "limit"),
                    (total("process_resident_memory_bytes"), "resident, without workers"),
                    meaning="information_schema.memory_usage shows what holds it.",
                ),
                graph(
                    "Times that memory had to be freed", "ops", (rate("tsdb_memory_limited_total"), "near the limit")
                ),
                graph("CPU", "percentunit", (rate("process_cpu_seconds_total"), "cores")),
                graph(
                    "File descriptors",
                    "none",
                    (largest("process_open_fds"), "open"),
                    (largest("process_max_fds"), "limit"),
                ),
                graph(
                    "Garbage collections",
                    "ops",
                    (rate("python_gc_collections_total", "generation"), "generation {{generation}}"),
                ),
            ),
        ),
        Row(
            "Caches",
            (
                graph(
                    "Hit ratio",
                    "percentunit",
                    (
                        f"{_HITS} / ({_HITS} + {rate('tsdb_engine_cache_misses_total', 'cache')})",
                        "{{cache}}",
                    ),
                ),
                graph(
                    "Fill level",
                    "percentunit",
                    (
                        f"{total('tsdb_engine_cache_bytes', 'cache')} / ({_CAPACITY} > 0)",
                        "{{cache}}",
                    ),
                ),
                graph("Evictions", "ops", (rate("tsdb_engine_cache_evictions_total", "cache"), "{{cache}}")),
            ),
        ),
        Row(
            "Logins and logs",
            (
                graph(
                    "Logins", "reqps", (rate("tsdb_auth_logins_total", "method", "outcome"), "{{method}} {{outcome}}")
                ),
                graph("Clients with failed logins", "none", (total("tsdb_auth_failing_clients"), "clients")),
                graph(
                    "Lost log records",
                    "ops",
                    (rate("tsdb_log_records_dropped_total"), "dropped"),
                    (rate("tsdb_log_write_errors_total"), "write errors"),
                ),
            ),
        ),
    ),
)
