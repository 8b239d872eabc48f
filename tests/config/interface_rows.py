"""The key and option tables of the interface, typed in as test data.

Each key row: the components that have the key, its path, three different ways to set it (file, environment, option;
the file's as TOML, the others as text) and how each shows in the effective configuration. Arrays of tables carry
their index.
"""

from __future__ import annotations

from dataclasses import dataclass, field

S, F, D, M = "standalone", "frontend", "datanode", "metasrv"


@dataclass(frozen=True)
class KeyRow:
    components: tuple[str, ...]
    path: str
    file: str
    """The value as TOML, in the file."""
    file_shows: str
    """The same value in the effective configuration."""
    env: str
    env_shows: str
    needs: dict[str, str] = field(default_factory=dict)
    """Other keys that must be set for this one to be allowed, in the file, as TOML."""


def _addr(components: tuple[str, ...], path: str) -> KeyRow:
    return KeyRow(components, path, '"127.0.0.1:5001"', '"127.0.0.1:5001"', "[::1]:5002", '"[::1]:5002"')


def _text(components: tuple[str, ...], path: str, **needs: str) -> KeyRow:
    return KeyRow(components, path, '"/x/file"', '"/x/file"', "/x/env", '"/x/env"', needs)


def _bool(components: tuple[str, ...], path: str, **needs: str) -> KeyRow:
    return KeyRow(components, path, "true", "true", "false", "false", needs)


def _int(components: tuple[str, ...], path: str) -> KeyRow:
    return KeyRow(components, path, "17", "17", "18", "18")


def _size(components: tuple[str, ...], path: str) -> KeyRow:
    return KeyRow(components, path, '"17MB"', '"17MiB"', "1.5GiB", '"1536MiB"')


def _duration(components: tuple[str, ...], path: str) -> KeyRow:
    return KeyRow(components, path, '"17s"', '"17s"', "90m", '"1h30m"')


def _secret(components: tuple[str, ...], path: str, **needs: str) -> KeyRow:
    return KeyRow(components, path, '"from-file"', '"******"', "from-env", '"******"', needs)


def _choice(components: tuple[str, ...], path: str, first: str, second: str, shows: str) -> KeyRow:
    return KeyRow(components, path, f'"{first}"', f'"{first}"', second, f'"{shows}"')


FS, DS, DF, ALL = (F, S), (D, S), (D, F), (S, F, D, M)
MITO = "region_engine.0.mito"
S3 = {"storage.type": '"S3"', "storage.bucket": '"b"', "wal.dir": '"/w"'}
OSS = {"storage.type": '"Oss"', "storage.bucket": '"b"', "storage.endpoint": '"http://e"', "wal.dir": '"/w"'}
AZ = {
    "storage.type": '"Azblob"',
    "storage.container": '"c"',
    "storage.endpoint": '"http://e"',
    "wal.dir": '"/w"',
}
GSC = {"storage.type": '"Gsc"', "storage.bucket": '"b"', "wal.dir": '"/w"'}
REMOTE = {"export_metrics.remote_write.url": '"http://h:1/w"'}


def _needing(row: KeyRow, needs: dict[str, str]) -> KeyRow:
    others = {key: value for key, value in needs.items() if key != row.path}
    return KeyRow(row.components, row.path, row.file, row.file_shows, row.env, row.env_shows, others)


KEY_ROWS: list[KeyRow] = [
    # Protocol options
    _addr(ALL, "http.addr"),
    _duration(ALL, "http.timeout"),
    _size(ALL, "http.body_limit"),
    KeyRow(ALL, "http.public_endpoints", '["/health"]', '["/health"]', "/ready,/config", '["/ready", "/config"]'),
    _needing(
        _choice(ALL, "http.tls.mode", "require", "prefer", "prefer"),
        {"http.tls.cert_path": '"c"', "http.tls.key_path": '"k"'},
    ),
    _text(ALL, "http.tls.cert_path"),
    _text(ALL, "http.tls.key_path"),
    _text(ALL, "http.tls.ca_cert_path"),
    _bool(ALL, "http.tls.watch"),
    _bool(FS, "http.is_strict_mode"),
    _bool(FS, "http.disable_dashboard"),
    _bool(FS, "http.compat_paths"),
    _addr(FS, "grpc.addr"),
    _int(FS, "grpc.runtime_size"),
    _size(FS, "grpc.max_recv_message_size"),
    _size(FS, "grpc.max_send_message_size"),
    _int(FS, "grpc.max_connections"),
    _duration(FS, "grpc.idle_timeout"),
    _duration(FS, "grpc.keep_alive"),
    _needing(
        _choice(FS, "grpc.tls.mode", "require", "prefer", "prefer"),
        {"grpc.tls.cert_path": '"c"', "grpc.tls.key_path": '"k"'},
    ),
    _text(FS, "grpc.tls.cert_path"),
    _text(FS, "grpc.tls.key_path"),
    _text(FS, "grpc.tls.ca_cert_path"),
    _bool(FS, "grpc.tls.watch"),
    _bool(FS, "mysql.enable"),
    _addr(FS, "mysql.addr"),
    _int(FS, "mysql.runtime_size"),
    _int(FS, "mysql.max_connections"),
    _duration(FS, "mysql.idle_timeout"),
    _duration(FS, "mysql.keep_alive"),
    _int(FS, "mysql.prepared_stmt_cache_size"),
    _bool(FS, "mysql.reject_no_database"),
    _needing(
        _choice(FS, "mysql.tls.mode", "require", "prefer", "prefer"),
        {"mysql.tls.cert_path": '"c"', "mysql.tls.key_path": '"k"'},
    ),
    _text(FS, "mysql.tls.cert_path"),
    _text(FS, "mysql.tls.key_path"),
    _text(FS, "mysql.tls.ca_cert_path"),
    _bool(FS, "mysql.tls.watch"),
    _bool(FS, "postgres.enable"),
    _addr(FS, "postgres.addr"),
    _int(FS, "postgres.runtime_size"),
    _int(FS, "postgres.max_connections"),
    _duration(FS, "postgres.idle_timeout"),
    _duration(FS, "postgres.keep_alive"),
    _needing(
        _choice(FS, "postgres.tls.mode", "verify_ca", "verify-full", "verify_full"),
        {"postgres.tls.cert_path": '"c"', "postgres.tls.key_path": '"k"'},
    ),
    _text(FS, "postgres.tls.cert_path"),
    _text(FS, "postgres.tls.key_path"),
    _text(FS, "postgres.tls.ca_cert_path"),
    _bool(FS, "postgres.tls.watch"),
    _bool(FS, "opentsdb.enable"),
    _addr(FS, "opentsdb.addr"),
    _int(FS, "opentsdb.runtime_size"),
    _bool(FS, "influxdb.enable"),
    _bool(FS, "prom_store.enable"),
    _int(FS, "query.workers"),
    KeyRow((S, F, D), "memory.limit", '"300MB"', '"300MiB"', "1GB", '"1GiB"'),
    _bool(FS, "slow_query.enable"),
    _choice(FS, "slow_query.record_type", "log", "system_table", "system_table"),
    _duration(FS, "slow_query.threshold"),
    KeyRow(FS, "slow_query.sample_ratio", "0.25", "0.25", "1", "1.0"),
    _duration(FS, "slow_query.ttl"),
    _bool(FS, "prom_store.with_metric_engine"),
    _secret(FS, "user_provider"),
    # Storage options
    _text(DS, "storage.data_home"),
    _text(DS, "storage.cache_path"),
    _size(DS, "storage.cache_capacity"),
    KeyRow(DS, "storage.price_per_thousand_writes", "0.25", "0.25", "1", "1.0"),
    KeyRow(DS, "storage.price_per_thousand_reads", "0.25", "0.25", "1", "1.0"),
    *(_needing(_text(DS, f"storage.{key}"), S3) for key in ("bucket", "root", "endpoint", "region")),
    *(_needing(_secret(DS, f"storage.{key}"), S3) for key in ("access_key_id", "secret_access_key")),
    *(_needing(_text(DS, f"storage.{key}"), OSS) for key in ("bucket", "root", "endpoint")),
    *(_needing(_secret(DS, f"storage.{key}"), OSS) for key in ("access_key_id", "secret_access_key")),
    *(_needing(_text(DS, f"storage.{key}"), AZ) for key in ("container", "root", "endpoint", "account_name")),
    *(_needing(_secret(DS, f"storage.{key}"), AZ) for key in ("account_key", "sas_token")),
    *(_needing(_text(DS, f"storage.{key}"), GSC) for key in ("bucket", "root", "scope", "credential_path", "endpoint")),
    # WAL options
    _text(DS, "wal.dir"),
    _size(DS, "wal.file_size"),
    _size(DS, "wal.purge_threshold"),
    _duration(DS, "wal.purge_interval"),
    _int(DS, "wal.read_batch_size"),
    _bool(DS, "wal.sync_write"),
    _needing(_bool(DS, "wal.shared.enable"), S3),
    _choice(DS, "wal.shared.acknowledge", "local", "store", "store"),
    _duration(DS, "wal.shared.interval"),
    _size(DS, "wal.shared.max_batch"),
    _int(DS, "wal.shared.in_flight"),
    _duration(DS, "wal.shared.retention"),
    KeyRow(
        DS,
        "wal.shared.storage",
        '"cold"',
        '"cold"',
        "COLD",
        '"COLD"',
        {"storage.providers": '[{type = "File", name = "cold", data_home = "/c"}]'},
    ),
    # Logging options
    _text(ALL, "logging.dir"),
    _choice(ALL, "logging.level", "debug", "error", "error"),
    _bool(ALL, "logging.enable_otlp_tracing"),
    _addr(ALL, "logging.otlp_endpoint"),
    _bool(ALL, "logging.append_stdout"),
    KeyRow(ALL, "logging.tracing_sample_ratio.default_ratio", "0.25", "0.25", "1", "1.0"),
    # Region engine options
    _int(DS, f"{MITO}.num_workers"),
    _int(DS, f"{MITO}.manifest_checkpoint_distance"),
    _int(DS, f"{MITO}.max_background_jobs"),
    _duration(DS, f"{MITO}.auto_flush_interval"),
    _size(DS, f"{MITO}.global_write_buffer_size"),
    KeyRow(DS, f"{MITO}.global_write_buffer_reject_size", '"7GB"', '"7GiB"', "8gib", '"8GiB"'),
    _size(DS, f"{MITO}.sst_meta_cache_size"),
    _size(DS, f"{MITO}.vector_cache_size"),
    _size(DS, f"{MITO}.page_cache_size"),
    _size(DS, f"{MITO}.sst_write_buffer_size"),
    _int(DS, f"{MITO}.scan_parallelism"),
    _choice(DS, f"{MITO}.inverted_index.create_on_flush", "disable", "auto", "auto"),
    _choice(DS, f"{MITO}.inverted_index.create_on_compaction", "disable", "auto", "auto"),
    _choice(DS, f"{MITO}.inverted_index.apply_on_query", "disable", "auto", "auto"),
    KeyRow(DS, f"{MITO}.inverted_index.mem_threshold_on_create", '"32M"', '"32MiB"', "", '""'),
    _text(DS, f"{MITO}.inverted_index.intermediate_path"),
    _choice(DS, f"{MITO}.memtable.type", "partition_tree", "time_series", "time_series"),
    _int(DS, f"{MITO}.memtable.index_max_keys_per_shard"),
    _int(DS, f"{MITO}.memtable.data_freeze_threshold"),
    _size(DS, f"{MITO}.memtable.fork_dictionary_bytes"),
    # Meta client
    KeyRow(
        DF,
        "meta_client.metasrv_addrs",
        '["a:1", "b:2"]',
        '["a:1", "b:2"]',
        "c:3,d:4,e:5",
        '["c:3", "d:4", "e:5"]',
    ),
    _duration(DF, "meta_client.timeout"),
    _duration(DF, "meta_client.connect_timeout"),
    _duration(DF, "meta_client.ddl_timeout"),
    _bool(DF, "meta_client.tcp_nodelay"),
    # Metrics export
    _needing(_bool(ALL, "export_metrics.enable"), REMOTE),
    _duration(ALL, "export_metrics.write_interval"),
    _text(FS, "export_metrics.self_import.db"),
    KeyRow(
        ALL,
        "export_metrics.remote_write.url",
        '"http://h:1/a"',
        '"http://h:1/a"',
        "https://h:2/b",
        '"https://h:2/b"',
    ),
    _needing(
        KeyRow(
            ALL,
            "export_metrics.remote_write.headers",
            '{ Authorization = "Basic x" }',
            '{ Authorization = "******" }',
            "X-One=1,X-Two=2",
            '{ X-One = "******", X-Two = "******" }',
        ),
        REMOTE,
    ),
    # Metasrv-only keys
    _text((M, F), "data_home"),
    _addr((M,), "bind_addr"),
    _addr((M,), "server_addr"),
    KeyRow((M,), "store_addr", '"a:1,https://b:2/"', '"a:1,https://b:2"', "c:3 http://d:4", '"c:3,http://d:4"'),
    KeyRow((M,), "store_username", '"u"', '"u"', "v", '"v"', {"store_password": '"p"'}),
    KeyRow((M,), "store_password", '"p"', '"******"', "q", '"******"', {"store_username": '"u"'}),
    _text((M,), "store_tls.ca_cert_path"),
    _needing(_text((M,), "store_tls.cert_path"), {"store_tls.key_path": '"k"'}),
    _needing(_text((M,), "store_tls.key_path"), {"store_tls.cert_path": '"c"'}),
    KeyRow((M,), "selector", '"LoadBased"', '"load_based"', "LeaseBased", '"lease_based"'),
    _bool((M,), "use_memory_store"),
    _bool((M,), "enable_region_failover"),
    # Datanode-only keys
    _int((D,), "node_id"),
    KeyRow((D,), "rpc_hostname", '"host-a"', '"host-a"', "host-b", '"host-b"'),
    _addr((D,), "rpc_addr"),
    _int((D,), "rpc_runtime_size"),
]


@dataclass(frozen=True)
class OptionRow:
    components: tuple[str, ...]
    option: str
    argument: str | None
    """None for a flag without an argument."""
    keys: tuple[str, ...]
    shows: str
    needs: tuple[str, ...] = ()
    """Further arguments that make the option allowed."""


TLS = ("--tls-mode", "require", "--tls-cert-path", "c.pem", "--tls-key-path", "k.pem")

OPTION_ROWS: list[OptionRow] = [
    OptionRow(ALL, "--log-dir", "/l", ("logging.dir",), '"/l"'),
    OptionRow(ALL, "--log-level", "warn", ("logging.level",), '"warn"'),
    OptionRow(ALL, "--http-addr", "127.0.0.1:7", ("http.addr",), '"127.0.0.1:7"'),
    OptionRow((D, M, F), "--http-timeout", "45", ("http.timeout",), '"45s"'),
    OptionRow((D,), "--rpc-addr", "127.0.0.1:7", ("rpc_addr",), '"127.0.0.1:7"'),
    OptionRow(FS, "--rpc-addr", "127.0.0.1:7", ("grpc.addr",), '"127.0.0.1:7"'),
    OptionRow((D,), "--metasrv-addrs", "a:1,b:2", ("meta_client.metasrv_addrs",), '["a:1", "b:2"]'),
    OptionRow(DF, "--metasrv-addr", "a:1,b:2", ("meta_client.metasrv_addrs",), '["a:1", "b:2"]'),
    OptionRow(DS, "--data-home", "/d", ("storage.data_home",), '"/d"'),
    OptionRow((D,), "--node-id", "99", ("node_id",), "99"),
    OptionRow((D,), "--rpc-hostname", "h", ("rpc_hostname",), '"h"'),
    OptionRow((D,), "--wal-dir", "/w", ("wal.dir",), '"/w"'),
    OptionRow((M,), "--enable-region-failover", None, ("enable_region_failover",), "true"),
    OptionRow((M,), "--bind-addr", "127.0.0.1:7", ("bind_addr",), '"127.0.0.1:7"'),
    OptionRow((M,), "--selector", "load_based", ("selector",), '"load_based"'),
    OptionRow((M,), "--server-addr", "127.0.0.1:7", ("server_addr",), '"127.0.0.1:7"'),
    OptionRow((M,), "--store-addrs", "a:1 b:2", ("store_addr",), '"a:1,b:2"'),
    OptionRow((M,), "--store-addr", "a:1,b:2", ("store_addr",), '"a:1,b:2"'),
    OptionRow((M,), "--use-memory-store", None, ("use_memory_store",), "true"),
    OptionRow((F,), "--disable-dashboard", None, ("http.disable_dashboard",), "true"),
    OptionRow(FS, "--influxdb-enable", None, ("influxdb.enable",), "true"),
    OptionRow(FS, "--influxdb-enable", "false", ("influxdb.enable",), "false"),
    OptionRow(FS, "--mysql-addr", "127.0.0.1:7", ("mysql.addr",), '"127.0.0.1:7"'),
    OptionRow(FS, "--postgres-addr", "127.0.0.1:7", ("postgres.addr",), '"127.0.0.1:7"'),
    OptionRow(FS, "--opentsdb-addr", "127.0.0.1:7", ("opentsdb.addr",), '"127.0.0.1:7"'),
    OptionRow((F,), "--tls-mode", "require", ("mysql.tls.mode", "postgres.tls.mode"), '"require"', TLS[2:]),
    OptionRow((F,), "--tls-cert-path", "c", ("mysql.tls.cert_path", "postgres.tls.cert_path"), '"c"'),
    OptionRow((F,), "--tls-key-path", "k", ("mysql.tls.key_path", "postgres.tls.key_path"), '"k"'),
    OptionRow((F, S), "--user-provider", "static_user_provider:cmd:a=b", ("user_provider",), '"******"'),
]
