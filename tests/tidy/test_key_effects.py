"""Every configuration key has an effect.

`EFFECTS` names for each key the code that reads it and the test that observes the effect. A key that is added to a
model fails here until it is listed, and one that is listed fails when its code or its test goes away.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tsdb.config import Component
from tsdb.config._schema import Key, keys_of

ROOT = Path(__file__).parents[2]
STANDALONE = "tsdb/components/standalone.py"
PROTOCOLS = "tsdb/components/_protocols.py"
SETTINGS = "tsdb/components/_settings.py"
METASRV = "tsdb/components/metasrv.py"
DATANODE = "tsdb/components/datanode.py"
NODE = "tsdb/components/_node.py"
METASRV_TESTS = "tests/components/test_metasrv.py"
METASRV_ETCD = "tests/cluster/test_secured_etcd.py::test_a_server_reaches_an_etcd_with_tls_and_a_login"
FRONTEND = "tests/cluster/test_frontend_options.py"
PROCESS = "tsdb/components/_process.py"
TLS = "tsdb/servers/_tls.py"
STORES = "tsdb/components/_stores.py"
COSTS = "tests/components/test_object_storage.py::test_requests_are_counted_with_their_estimated_cost"
SERVICES = "tests/components/test_stores.py::test_every_key_reaches_its_service"

# Key → file and text of the code that reads it, and the test that observes it: a file and how the name begins.
EFFECTS: dict[str, tuple[str, str, str]] = {
    "mode": (
        "tsdb/config/_components.py",
        'Literal["standalone"]',
        "tests/config/test_problems.py::test_rule_between_keys_is_checked",
    ),
    "user_provider": (
        PROCESS,
        "config.user_provider",
        "tests/components/test_user_provider.py::test_the_probes_of_authentication",
    ),
    "http.addr": (PROCESS, "http.addr.host", "tests/components/test_process.py::test_second_server_on_the_same_port"),
    "http.timeout": (PROCESS, "options.timeout", "tests/components/test_process.py::test_request_over_the_timeout"),
    "http.body_limit": (PROCESS, "options.body_limit", "tests/components/test_process.py::test_body_over_the_limit"),
    "http.is_strict_mode": (
        PROTOCOLS,
        "http.is_strict_mode",
        "tests/servers/http/test_prometheus_remote.py::test_strict_mode_refuses_text_that_is_not_utf8",
    ),
    "query.workers": (
        SETTINGS,
        "config.query.workers",
        "tests/components/test_query_workers.py::test_as_many_workers_as_are_configured",
    ),
    "memory.limit": (
        SETTINGS,
        "config.memory.limit",
        "tests/components/test_memory_limit.py::test_a_server_keeps_to_its_memory_limit",
    ),
    "slow_query.*": (
        STANDALONE,
        "slow_query_options(config.slow_query)",
        "tests/database/test_slow_queries.py::test_what_is_not_to_be_recorded_is_not",
    ),
    "http.public_endpoints": (
        PROCESS,
        "options.public_endpoints",
        "tests/servers/http/test_public_endpoints.py::test_the_configuration_decides_what_is_public",
    ),
    "http.compat_paths": (
        PROTOCOLS,
        "http.compat_paths",
        "tests/servers/http/test_influx_clients.py::test_paths_of_other_products_can_be_switched_off",
    ),
    "http.disable_dashboard": (
        PROTOCOLS,
        "http.disable_dashboard",
        "tests/components/test_process.py::test_the_dashboard_can_be_switched_off",
    ),
    "http.tls.*": (PROCESS, "Tls.of(http.tls", "tests/components/test_tls.py::test_a_standalone_server_speaks_https"),
    "grpc.addr": (PROTOCOLS, "grpc.addr.host", "tests/components/test_grpc.py::test_what_is_written_by_grpc"),
    "grpc.runtime_size": (
        PROTOCOLS,
        "grpc.runtime_size",
        "tests/servers/grpc/test_server.py::test_no_more_statements",
    ),
    "grpc.max_recv_message_size": (
        PROTOCOLS,
        "grpc.max_recv_message_size",
        "tests/servers/grpc/test_server.py::test_a_message_over_the_limit_is_refused",
    ),
    "grpc.max_send_message_size": (
        PROTOCOLS,
        "grpc.max_send_message_size",
        "tests/components/test_grpc.py::test_what_is_written_by_grpc_is_read_by_http_and_the_keys_hold",
    ),
    "grpc.max_connections": (
        PROTOCOLS,
        "grpc.max_connections",
        "tests/servers/grpc/test_server.py::test_connections_over_the_limit_are_closed",
    ),
    "grpc.idle_timeout": (
        PROTOCOLS,
        "grpc.idle_timeout",
        "tests/servers/grpc/test_server.py::test_an_idle_connection_is_closed",
    ),
    "grpc.keep_alive": (
        PROTOCOLS,
        "grpc.keep_alive",
        "tests/servers/grpc/test_server.py::test_a_client_that_answers_no_ping_is_closed",
    ),
    "grpc.tls.*": (
        PROTOCOLS,
        "Tls.of(grpc.tls",
        f"{FRONTEND}::test_every_port_of_a_frontend_speaks_tls",
    ),
    "mysql.enable": (
        PROTOCOLS,
        "mysql.enable",
        "tests/components/test_process.py::test_protocols_can_be_switched_off",
    ),
    "mysql.addr": (
        PROTOCOLS,
        "mysql.addr.host",
        f"{FRONTEND}::test_every_port_of_a_frontend_speaks_tls",
    ),
    "mysql.runtime_size": (
        PROTOCOLS,
        "mysql.runtime_size",
        "tests/servers/test_limits.py::test_no_more_statements_run",
    ),
    "mysql.max_connections": (PROTOCOLS, "mysql.max_connections", "tests/servers/test_limits.py::test_one_client_too"),
    "mysql.idle_timeout": (PROTOCOLS, "mysql.idle_timeout", "tests/servers/test_limits.py::test_a_client_that_is"),
    "mysql.keep_alive": (
        PROTOCOLS,
        "mysql.keep_alive",
        "tests/servers/test_limits.py::test_connections_are_kept_alive_as_often_as_configured",
    ),
    "mysql.prepared_stmt_cache_size": (
        PROTOCOLS,
        "mysql.prepared_stmt_cache_size",
        "tests/servers/mysql/test_commands.py::test_prepared_statements_are_bounded",
    ),
    "mysql.reject_no_database": (
        PROTOCOLS,
        "mysql.reject_no_database",
        "tests/servers/mysql/test_commands.py::test_a_database_can_be_demanded",
    ),
    "mysql.tls.*": (
        PROTOCOLS,
        "Tls.of(mysql.tls",
        f"{FRONTEND}::test_every_port_of_a_frontend_speaks_tls",
    ),
    "postgres.enable": (
        PROTOCOLS,
        "postgres.enable",
        "tests/components/test_process.py::test_protocols_can_be_switched_off",
    ),
    "postgres.addr": (
        PROTOCOLS,
        "options.addr.host",
        f"{FRONTEND}::test_every_port_of_a_frontend_speaks_tls",
    ),
    "postgres.runtime_size": (PROTOCOLS, "options.runtime_size", "tests/servers/test_limits.py::test_no_more_statem"),
    "postgres.max_connections": (
        PROTOCOLS,
        "options.max_connections",
        "tests/servers/test_limits.py::test_one_client",
    ),
    "postgres.idle_timeout": (
        PROTOCOLS,
        "options.idle_timeout",
        "tests/servers/test_limits.py::test_a_client_that_is",
    ),
    "postgres.keep_alive": (
        PROTOCOLS,
        "options.keep_alive",
        "tests/servers/test_limits.py::test_connections_are_kept_alive_as_often_as_configured",
    ),
    "postgres.tls.*": (
        PROTOCOLS,
        "Tls.of(options.tls",
        f"{FRONTEND}::test_every_port_of_a_frontend_speaks_tls",
    ),
    "opentsdb.enable": (
        PROTOCOLS,
        "opentsdb.enable",
        "tests/components/test_process.py::test_protocols_can_be_switched_off",
    ),
    "opentsdb.addr": (
        PROTOCOLS,
        "opentsdb.addr.host",
        "tests/components/test_export_metrics.py::test_a_server_imports_its_metrics_and_takes_lines_by_telnet",
    ),
    "opentsdb.runtime_size": (
        PROTOCOLS,
        "opentsdb.runtime_size",
        "tests/servers/opentsdb/test_telnet.py::test_at_most_as_many_batches_as_threads",
    ),
    "influxdb.enable": (
        PROTOCOLS,
        "influxdb.enable",
        "tests/components/test_process.py::test_protocols_can_be_switched_off",
    ),
    "prom_store.enable": (
        PROTOCOLS,
        "prom_store.enable",
        "tests/components/test_process.py::test_protocols_can_be_switched_off",
    ),
    "prom_store.with_metric_engine": (
        PROTOCOLS,
        "prom_store.with_metric_engine",
        "tests/servers/http/test_prometheus_remote.py::test_without_the_metric_engine_every_metric",
    ),
    "storage.cache_path": (
        STORES,
        "storage.cache_path",
        "tests/components/test_file_cache.py::test_tables_of_a_remote_store_are_read_from_the_file_cache",
    ),
    "storage.cache_capacity": (
        STORES,
        "storage.cache_capacity",
        "tests/components/test_file_cache.py::test_without_capacity_there_is_no_file_cache",
    ),
    "storage.type": (STORES, "remote_settings(name, storage)", SERVICES),
    "storage.bucket": (STORES, "section.bucket", SERVICES),
    "storage.root": (STORES, "section.root", SERVICES),
    "storage.endpoint": (STORES, "section.endpoint", SERVICES),
    "storage.region": (STORES, "section.region", SERVICES),
    "storage.access_key_id": (STORES, "section.access_key_id", SERVICES),
    "storage.secret_access_key": (STORES, "section.secret_access_key", SERVICES),
    "storage.container": (STORES, "section.container", SERVICES),
    "storage.account_name": (STORES, "section.account_name", SERVICES),
    "storage.account_key": (STORES, "section.account_key", SERVICES),
    "storage.sas_token": (STORES, "section.sas_token", SERVICES),
    "storage.scope": (STORES, "section.scope", SERVICES),
    "storage.credential_path": (STORES, "section.credential_path", SERVICES),
    "storage.price_per_thousand_writes": (STORES, "storage.price_per_thousand_writes", COSTS),
    "storage.price_per_thousand_reads": (STORES, "storage.price_per_thousand_reads", COSTS),
    "storage.providers[].*": (
        STORES,
        "storage.providers",
        "tests/components/test_object_storage.py::test_a_table_chooses_its_storage",
    ),
    "storage.data_home": (
        STANDALONE,
        "config.storage.data_home",
        "tests/components/test_process.py::test_data_home_option_chooses_the_directory",
    ),
    "wal.dir": (STANDALONE, "config.wal.dir", "tests/components/test_object_storage.py::test_rows_survive"),
    "wal.file_size": (
        SETTINGS,
        "wal.file_size",
        "tests/engine/region/test_pressure.py::test_a_segment_of_the_log_is_no",
    ),
    "wal.purge_threshold": (
        SETTINGS,
        "wal.purge_threshold",
        "tests/engine/region/test_pressure.py::test_regions_that_hold",
    ),
    "wal.purge_interval": (
        SETTINGS,
        "wal.purge_interval",
        "tests/engine/region/test_pressure.py::test_regions_that_hold_back_the_log",
    ),
    "wal.read_batch_size": (
        SETTINGS,
        "wal.read_batch_size",
        "tests/engine/region/test_pressure.py::test_read_batch_size_is_how_many_entries",
    ),
    "wal.shared.retention": (
        SETTINGS,
        "shared.retention",
        "tests/engine/log/shared/test_retention.py::test_objects_are_kept_for_the_retention_and_then_deleted",
    ),
    "wal.shared.storage": (
        SETTINGS,
        "shared.storage",
        "tests/components/test_shared_log.py::test_a_log_is_shipped_to_a_storage_of_its_own_and_recovered_from_there",
    ),
    "wal.shared.*": (
        STANDALONE,
        "shared_log_options(config.wal",
        "tests/components/test_shared_log.py::test_every_acknowledged_row_survives_the_loss_of_the_log_directory",
    ),
    "wal.sync_write": (
        SETTINGS,
        "wal.sync_write",
        "tests/engine/wal/test_wal.py::test_without_sync_write_syncing_happens_in_the_background",
    ),
    "region_engine[].mito.num_workers": (
        SETTINGS,
        "mito.num_workers",
        "tests/engine/region/test_pressure.py::test_num_workers_is_how_many_threads_own_regions",
    ),
    "region_engine[].mito.manifest_checkpoint_distance": (
        SETTINGS,
        "mito.manifest_checkpoint_distance",
        "tests/engine/region/test_pressure.py::test_manifest_checkpoint_distance",
    ),
    "region_engine[].mito.max_background_jobs": (
        SETTINGS,
        "mito.max_background_jobs",
        "tests/engine/region/test_pressure.py::test_max_background_jobs_is_how_many_run_at_a_time",
    ),
    "region_engine[].mito.auto_flush_interval": (
        SETTINGS,
        "mito.auto_flush_interval",
        "tests/engine/region/test_pressure.py::test_a_region_is_flushed_when_its_rows_are_as_old",
    ),
    "region_engine[].mito.global_write_buffer_size": (
        SETTINGS,
        "mito.global_write_buffer_size",
        "tests/engine/region/test_pressure.py::test_a_full_buffer_lets_writers_wait",
    ),
    "region_engine[].mito.global_write_buffer_reject_size": (
        SETTINGS,
        "mito.global_write_buffer_reject_size",
        "tests/engine/region/test_pressure.py::test_writers_are_refused_at_once",
    ),
    "region_engine[].mito.sst_meta_cache_size": (
        SETTINGS,
        "mito.sst_meta_cache_size",
        "tests/engine/rows/test_cache.py::test_caches_report_by_the_names_of_their_settings",
    ),
    "region_engine[].mito.vector_cache_size": (
        SETTINGS,
        "mito.vector_cache_size",
        "tests/engine/rows/test_cache.py::test_caches_report_by_the_names_of_their_settings",
    ),
    "region_engine[].mito.page_cache_size": (
        SETTINGS,
        "mito.page_cache_size",
        "tests/engine/rows/test_cache.py::test_caches_report_by_the_names_of_their_settings",
    ),
    "region_engine[].mito.sst_write_buffer_size": (
        SETTINGS,
        "mito.sst_write_buffer_size",
        "tests/engine/region/test_pressure.py::test_sst_write_buffer_size_is_how_much",
    ),
    "region_engine[].mito.scan_parallelism": (
        SETTINGS,
        "mito.scan_parallelism",
        "tests/engine/test_engine.py::test_scan_parallelism_is_the_number_of_fragments",
    ),
    "region_engine[].mito.memtable.type": (
        SETTINGS,
        "mito.memtable.type",
        "tests/engine/rows/test_partition_tree.py::test_very_many_series_take_little_memory",
    ),
    "region_engine[].mito.memtable.index_max_keys_per_shard": (
        SETTINGS,
        "mito.memtable.index_max_keys_per_shard",
        "tests/engine/rows/test_partition_tree.py::test_a_shard_has_no_more_keys_than_configured",
    ),
    "region_engine[].mito.memtable.data_freeze_threshold": (
        SETTINGS,
        "mito.memtable.data_freeze_threshold",
        "tests/engine/rows/test_partition_tree.py::test_rows_of_a_shard_are_compressed_at_the_threshold",
    ),
    "region_engine[].mito.memtable.fork_dictionary_bytes": (
        SETTINGS,
        "mito.memtable.fork_dictionary_bytes",
        "tests/engine/rows/test_partition_tree.py::test_keys_outlive_a_flush_as_far_as_there_is_room",
    ),
    "region_engine[].mito.inverted_index.create_on_flush": (
        SETTINGS,
        "inverted_index.create_on_flush",
        "tests/engine/test_indexes.py::test_all_settings_give_the_same_rows",
    ),
    "region_engine[].mito.inverted_index.create_on_compaction": (
        SETTINGS,
        "inverted_index.create_on_compaction",
        "tests/engine/test_indexes.py::test_all_settings_give_the_same_rows",
    ),
    "region_engine[].mito.inverted_index.apply_on_query": (
        SETTINGS,
        "inverted_index.apply_on_query",
        "tests/engine/test_indexes.py::test_all_settings_give_the_same_rows",
    ),
    "region_engine[].mito.inverted_index.mem_threshold_on_create": (
        SETTINGS,
        "inverted_index.mem_threshold_on_create",
        "tests/engine/test_indexes.py::test_values_above_the_threshold_are_sorted_on_disk",
    ),
    "region_engine[].mito.inverted_index.intermediate_path": (
        SETTINGS,
        "inverted_index.intermediate_path",
        "tests/engine/test_indexes.py::test_what_a_killed_build_left_is_removed",
    ),
    "data_home": (
        "tsdb/components/run.py",
        "config.data_home",
        f"{METASRV_TESTS}::test_a_server_with_its_metadata_in_memory_serves_and_warns",
    ),
    "bind_addr": (METASRV, "config.bind_addr.host", f"{METASRV_TESTS}::test_a_server_with_its_metadata_in_memory"),
    "server_addr": (METASRV, "config.server_addr", f"{METASRV_TESTS}::test_a_server_with_its_metadata_in_memory"),
    "store_addr": (METASRV, "config.store_addr", f"{METASRV_TESTS}::test_when_the_leader_is_killed_another_server"),
    "store_username": (METASRV, "config.store_username", METASRV_ETCD),
    "store_password": (METASRV, "config.store_password", METASRV_ETCD),
    "store_tls.*": (METASRV, "config.store_tls", METASRV_ETCD),
    "selector": (
        METASRV,
        "config.selector",
        f"{METASRV_TESTS}::test_the_selector_that_is_configured_places_tables",
    ),
    "use_memory_store": (
        METASRV,
        "config.use_memory_store",
        f"{METASRV_TESTS}::test_a_server_with_its_metadata_in_memory_serves_and_warns",
    ),
    "enable_region_failover": (
        METASRV,
        "config.enable_region_failover",
        "tests/meta/test_failover.py::test_the_regions_of_a_lost_node_are_moved_if_that_is_enabled",
    ),
    "node_id": (
        DATANODE,
        "config.node_id",
        "tests/cluster/test_nodes.py::test_a_second_datanode_with_the_id_of_a_live",
    ),
    "rpc_addr": (
        DATANODE,
        "config.rpc_addr",
        "tests/cluster/test_nodes.py::test_a_datanode_listens_where_its_configuration_says",
    ),
    "rpc_hostname": (
        DATANODE,
        "config.rpc_hostname",
        "tests/cluster/test_nodes.py::test_others_reach_a_datanode_by_its_host_name",
    ),
    "rpc_runtime_size": (
        DATANODE,
        "config.rpc_runtime_size",
        "tests/remote/test_failures.py::test_no_more_requests_compute_than_there_are_slots",
    ),
    "meta_client.metasrv_addrs": (
        NODE,
        "options.metasrv_addrs",
        "tests/cluster/test_cluster.py::test_the_regions_of_a_table_are_on_different_nodes",
    ),
    "meta_client.timeout": (
        NODE,
        "options.timeout",
        "tests/meta/test_service.py::test_servers_that_cannot_be_reached_are_named",
    ),
    "meta_client.connect_timeout": (
        NODE,
        "options.connect_timeout",
        "tests/meta/test_service.py::test_a_connection_may_take_as_long_as_configured",
    ),
    "meta_client.ddl_timeout": (
        NODE,
        "options.ddl_timeout",
        "tests/meta/test_service.py::test_a_change_that_takes_longer_than_the_client_waits_goes_on",
    ),
    "meta_client.tcp_nodelay": (
        NODE,
        "options.tcp_nodelay",
        "tests/meta/test_service.py::test_tcp_nodelay_is_set_as_configured",
    ),
    "logging.dir": (PROCESS, "options.dir", "tests/components/test_process.py::test_logs_go_to_hourly_files"),
    "logging.level": (PROCESS, "options.level", "tests/components/test_process.py::test_log_level_filters"),
    "logging.enable_otlp_tracing": (
        PROCESS,
        "options.enable_otlp_tracing",
        "tests/components/test_tracing.py::test_a_query_over_http_is_traced",
    ),
    "logging.otlp_endpoint": (
        PROCESS,
        "options.otlp_endpoint",
        "tests/components/test_tracing.py::test_a_query_over_http",
    ),
    "logging.append_stdout": (PROCESS, "options.append_stdout", "tests/components/test_process.py::test_stdout_stays"),
    "logging.tracing_sample_ratio.default_ratio": (
        PROCESS,
        "tracing_sample_ratio.default_ratio",
        "tests/telemetry/test_traces.py::test_the_ratio_decides_by_the_trace_id_alone",
    ),
    "export_metrics.enable": (
        PROCESS,
        "export.enable",
        "tests/components/test_export_metrics.py::test_a_server_imports_its_metrics_and_takes_lines",
    ),
    "export_metrics.write_interval": (
        PROCESS,
        "export.write_interval",
        "tests/components/test_export_metrics.py::test_a_server_imports_its_metrics_and_takes_lines",
    ),
    "export_metrics.self_import.db": (
        PROTOCOLS,
        "export.self_import.db",
        "tests/components/test_export_metrics.py::test_a_server_imports_its_metrics",
    ),
    "export_metrics.remote_write.url": (
        PROCESS,
        "export.remote_write.url",
        "tests/components/test_export_metrics.py::test_a_receiver_gets_all_samples",
    ),
    "export_metrics.remote_write.headers": (
        PROCESS,
        "export.remote_write.headers",
        "tests/components/test_export_metrics.py::test_a_receiver_gets_all_samples_with_the_headers",
    ),
}


def all_keys() -> dict[str, Key]:
    return {key.dotted: key for component in Component for key in keys_of(component).values()}


def entry_of(name: str) -> str:
    """The entry of `EFFECTS` that speaks for a key: its own, or that of its section."""
    return name if name in EFFECTS else f"{name.rpartition('.')[0]}.*"


def test_every_key_has_an_effect() -> None:
    for name in all_keys():
        assert entry_of(name) in EFFECTS, f"{name}: list where its effect is"


def test_no_entry_is_left_over() -> None:
    assert set(EFFECTS) == {entry_of(name) for name in all_keys()} & set(EFFECTS)


@pytest.mark.parametrize(("name", "effect"), EFFECTS.items(), ids=list(EFFECTS))
def test_the_code_and_the_test_of_an_effect_exist(name: str, effect: tuple[str, str, str]) -> None:
    code, text, test = effect
    assert text in (ROOT / code).read_text(encoding="utf-8"), f"{name}: {code} does not contain {text!r}"
    file, _, function = test.partition("::")
    assert function.startswith("test_"), f"{name}: name the test that observes the effect"
    source = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {function}\w*\(", source, flags=re.MULTILINE), f"{name}: there is no {test}"
