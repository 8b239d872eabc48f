"""What is wrong with a configuration is said with key, value and origin, all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsdb.config import Component, load_config
from tsdb.errors import ConfigError

_MITO = "[[region_engine]]\n[region_engine.mito]\n"


def _problems(component: str, document: str, tmp_path: Path, **options: str) -> list[str]:
    """Load a file that is wrong and return what is said of it, the file's own path left out."""
    file = tmp_path / "x.toml"
    file.write_text(("node_id = 1\n" if component == "datanode" else "") + document)
    with pytest.raises(ConfigError) as raised:
        load_config(Component(component), file=file, environment={}, options=options, memory=8 << 30)
    return [problem.replace(str(file), "x.toml") for problem in raised.value.problems]


SINGLE_VALUES = [
    ('[http]\nbody_limit = "64XB"', "http.body_limit: '64XB' is not a size, expected a number and a unit such as 64MB or 1GiB"),
    ("[http]\nbody_limit = 64", "http.body_limit: 64 is not a size, expected a string such as 64MB or 1GiB"),
    ('[http]\nbody_limit = "9999999999PB"', "http.body_limit: '9999999999PB' is too large for a size, the limit is 8EiB"),
    ('[http]\ntimeout = "30 parsecs"', "http.timeout: '30 parsecs' is not a duration, expected numbers with units such as 30s, 10m or 1h30m"),
    ("[http]\ntimeout = 30", "http.timeout: 30 is not a duration, expected a string such as 30s or 10m"),
    ('[wal]\npurge_interval = "0s"', "wal.purge_interval: 0 is not allowed here"),
    ('[http]\naddr = "nope"', "http.addr: 'nope' is not an address, expected host:port such as 127.0.0.1:4000"),
    ('[http]\naddr = "127.0.0.1:70000"', "http.addr: '127.0.0.1:70000' is not an address, a port is at most 65535"),
    ('[http]\naddr = "::1:4000"', "http.addr: '::1:4000' is not an address, expected host:port such as 127.0.0.1:4000"),
    ("[http]\naddr = 4000", "http.addr: 4000 is not an address, expected a string such as 127.0.0.1:4000"),
    ('[grpc]\nruntime_size = "8"', "grpc.runtime_size: '8' is not a whole number"),
    ("[grpc]\nruntime_size = 8.5", "grpc.runtime_size: 8.5 is not a whole number"),
    ("[grpc]\nruntime_size = true", "grpc.runtime_size: true is not a whole number"),
    ("[grpc]\nruntime_size = 0", "grpc.runtime_size: 0 is too small, expected at least 1"),
    ('[mysql]\nenable = "true"', "mysql.enable: 'true' is not a boolean, expected true or false"),
    ("[logging]\ndir = 5", "logging.dir: 5 is not a string"),
    ('[logging]\nlevel = "loud"', "logging.level: 'loud' is not one of info, debug, error, warn"),
    ("[logging]\ntracing_sample_ratio = 1.5", "logging.tracing_sample_ratio.default_ratio: 1.5 is not a ratio, expected a number from 0 to 1"),
    ("[logging.tracing_sample_ratio]\ndefault_ratio = -0.1", "logging.tracing_sample_ratio.default_ratio: -0.1 is not a ratio, expected a number from 0 to 1"),
    ('[mysql.tls]\nmode = "maybe"', "mysql.tls.mode: 'maybe' is not one of disable, prefer, require, verify_ca, verify_full"),
    (_MITO + 'memtable.type = "skiplist"', "region_engine[0].mito.memtable.type: 'skiplist' is not one of time_series, partition_tree"),
    (_MITO + 'inverted_index.apply_on_query = "always"', "region_engine[0].mito.inverted_index.apply_on_query: 'always' is not one of auto, disable"),
    ("http = 5", "http: 5 is not a table"),
    ('[storage]\ntype = "Floppy"', "storage.type: 'Floppy' is not a storage type, expected one of File, S3, Oss, Azblob, Gcs"),
    ('[storage]\ntype = "Floppy"\nbucket = "b"', "storage.type: 'Floppy' is not a storage type, expected one of File, S3, Oss, Azblob, Gcs"),
    ('[[storage.providers]]\ntype = "Tape"', "storage.providers[0].type: 'Tape' is not a storage type, expected one of File, S3, Oss, Azblob, Gcs"),
    ("[region_engine.mito]\nnum_workers = 1", "region_engine: is an array of tables: write [[region_engine]] above [region_engine.mito]"),
    ('[http]\nadr = "x:1"', "http.adr: unknown key = 'x:1', did you mean http.addr?"),
    ("[htttp]\ntimeout = 1", "htttp: unknown key, did you mean http?"),
    ("sync_write = true", "sync_write: unknown key = true, did you mean wal.sync_write?"),
    ('[storage]\nsecret_acess_key = "hunter2"', "storage.secret_acess_key: unknown key, did you mean storage.secret_access_key?"),
    ('[storage]\nbucket = "b"', "storage.bucket: is not a key of this storage type, only of S3, Oss, Gcs"),
    ("[meta_client]\ntcp_nodelay = true", "meta_client: is not a key of standalone, only of frontend and datanode"),
    ('[export_metrics.remote_write]\nurl = "ftp://h/x"', "export_metrics.remote_write.url: is not an address of HTTP, expected http://host:port/v1/prometheus/write?db=name"),
    ('[export_metrics.remote_write]\nurl = "http://h/x"\nheaders = { "a b" = "c" }', "export_metrics.remote_write.headers: 'a b' is not an HTTP header name"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), SINGLE_VALUES)
def test_wrong_value_is_named_with_key_value_and_file(document: str, message: str, tmp_path: Path) -> None:
    assert _problems("standalone", document, tmp_path) == [f"{message} (from file x.toml)"]


CROSS_CHECKS = [
    (
        "standalone",
        _MITO + 'global_write_buffer_size = "1GB"\nglobal_write_buffer_reject_size = "1GB"',
        "region_engine[0].mito.global_write_buffer_reject_size: 1GiB is not larger than global_write_buffer_size, 1GiB",
    ),
    (
        "standalone",
        _MITO + 'global_write_buffer_reject_size = "1GB"',
        "region_engine[0].mito.global_write_buffer_reject_size: 1GiB is not larger than global_write_buffer_size, 1GiB",
    ),
    (
        "datanode",
        '[storage]\ntype = "S3"\nbucket = "b"',
        "wal.dir: is required with storage type S3: the log stays on a local disk",
    ),
    (
        "standalone",
        "[wal.shared]\nenable = true",
        "wal.shared.enable: the log cannot be shared with storage type File: choose another type, or a provider by "
        "wal.shared.storage",
    ),
    (
        "standalone",
        '[wal.shared]\nstorage = "cold"',
        "wal.shared.storage: 'cold' is not the name of a storage provider; there are: none",
    ),
    (
        "frontend",
        '[mysql.tls]\nmode = "require"\ncert_path = "c.pem"',
        "mysql.tls.key_path: is required with TLS mode require",
    ),
    (
        "metasrv",
        '[http.tls]\nmode = "require"\nkey_path = "k.pem"',
        "http.tls.cert_path: is required with TLS mode require",
    ),
    ("metasrv", 'store_password = "p"', "store_username: is required with store_password"),
    ("metasrv", 'store_username = "u"', "store_password: is required with store_username"),
    ("metasrv", '[store_tls]\ncert_path = "c.pem"', "store_tls.key_path: is required with store_tls.cert_path"),
    ("metasrv", '[store_tls]\nkey_path = "k.pem"', "store_tls.cert_path: is required with store_tls.key_path"),
    (
        "metasrv",
        'store_addr = "https://a:1,http://b:2"\n[store_tls]\nca_cert_path = "ca.pem"',
        "store_addr: http://b:2 is without TLS, but store_tls.ca_cert_path is set",
    ),
    (
        "metasrv",
        'store_addr = "ftp://a:1"',
        "store_addr: 'ftp://a:1' is not an address, expected host:port or https://host:port",
    ),
    (
        "standalone",
        '[postgres.tls]\nmode = "prefer"\nkey_path = "k.pem"',
        "postgres.tls.cert_path: is required with TLS mode prefer",
    ),
    (
        "standalone",
        "[export_metrics]\nenable = true",
        "export_metrics.enable: one of export_metrics.self_import and export_metrics.remote_write is needed",
    ),
    (
        "standalone",
        '[export_metrics]\nself_import = {}\nremote_write.url = "http://h/w"',
        "export_metrics.remote_write: exactly one of self_import and remote_write is allowed",
    ),
    (
        "datanode",
        "[export_metrics.self_import]",
        "export_metrics.self_import: only frontend and standalone can import their own metrics, "
        "use export_metrics.remote_write",
    ),
    (
        "metasrv",
        '[export_metrics.self_import]\ndb = "m"',
        "export_metrics.self_import: only frontend and standalone can import their own metrics, "
        "use export_metrics.remote_write",
    ),
    (
        "standalone",
        '[export_metrics]\nwrite_interval = "500ms"',
        "export_metrics.write_interval: 500ms is too short, expected at least 1s",
    ),
    ("standalone", 'mode = "distributed"', "mode: 'distributed' does not fit standalone, expected 'standalone'"),
    ("frontend", 'mode = "standalone"', "mode: 'standalone' does not fit frontend, expected 'distributed'"),
    ("datanode", 'mode = "standalone"', "mode: 'standalone' does not fit datanode, expected 'distributed'"),
    (
        "standalone",
        '[mysql]\naddr = "127.0.0.1:4003"',
        "postgres.addr: 127.0.0.1:4003 is the address of mysql.addr too",
    ),
    ("standalone", _MITO + "[[region_engine]]\n[region_engine.mito]\n", "region_engine[1].mito: mito is configured more than once, keep one entry"),
]  # fmt: skip


@pytest.mark.parametrize(("component", "document", "message"), CROSS_CHECKS)
def test_rule_between_keys_is_checked(component: str, document: str, message: str, tmp_path: Path) -> None:
    assert _problems(component, document, tmp_path) == [f"{message} (from file x.toml)"]


def test_disabled_servers_need_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[mysql]\nenable = false\ntls.mode = "require"')
    load_config(Component.STANDALONE, file=file, environment={})


def test_datanode_needs_a_node_id() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(Component.DATANODE, environment={}, env_prefix="DN")
    assert raised.value.problems == ("node_id: is required; set it by --node-id, the key node_id or DN__NODE_ID",)


def test_all_problems_of_all_layers_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('[http]\nbody_limit = "x"\n[storage]\ntype = "S3"\n[grpc]\nruntim_size = 3\n')
    environment = {
        "TSDB_STANDALONE__MYSQL__RUNTIME_SIZE": "many",
        "TSDB_STANDALONE__REGION_ENGINE__0__MITO__NUM_WORKERS": "-1",
        "TSDB_STANDALONE__REGION_ENGINE__2__MITO__NUM_WORKERS": "1",
        "TSDB_STANDALONE__HTTP__TIMOUT": "1s",
        "TSDB_STANDALONE__EXPORT_METRICS__ENABLE": "true",
    }
    with pytest.raises(ConfigError) as raised:
        load_config(
            Component.STANDALONE,
            file=file,
            environment=environment,
            options={"http_addr": "nope", "http_timeout": "5"},
        )
    text = str(raised.value)
    for part in (
        "the configuration has 11 problems:",
        "http.addr: 'nope' is not an address, expected host:port such as 127.0.0.1:4000 (from option --http-addr)",
        "http.body_limit: 'x' is not a size",
        f"(from file {file})",
        "storage.bucket: is required; set it by the key storage.bucket or TSDB_STANDALONE__STORAGE__BUCKET",
        "wal.dir: is required with storage type S3",
        "grpc.runtim_size: unknown key = 3, did you mean grpc.runtime_size?",
        "mysql.runtime_size: 'many' is not a whole number (from environment TSDB_STANDALONE__MYSQL__RUNTIME_SIZE)",
        "region_engine[0].mito.num_workers: -1 is too small, expected at least 1",
        "TSDB_STANDALONE__REGION_ENGINE: the entries of an array are numbered from 0 without gaps",
        "http.timout: unknown key = '1s', did you mean http.timeout? (from environment TSDB_STANDALONE__HTTP__TIMOUT)",
        "region_engine[1].mito: mito is configured more than once",
        "export_metrics.enable: one of",
    ):
        assert part in text


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: there is no such file"):
        load_config(Component.STANDALONE, file=tmp_path / "absent.toml", environment={})


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(Component.STANDALONE, file=tmp_path, environment={})


def test_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match=r"x\.toml: is not UTF-8 text, byte 5"):
        load_config(Component.STANDALONE, file=file, environment={})


def test_syntax_error_shows_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[http]\naddr = = 1\n")
    with pytest.raises(ConfigError, match=r"x\.toml: is not valid TOML: .*\(at line 2, column 8\)"):
        load_config(Component.STANDALONE, file=file, environment={})


def test_http_timeout_option_takes_bare_seconds() -> None:
    loaded = load_config(Component.FRONTEND, environment={}, options={"http_timeout": "1.5"})
    assert str(loaded.config.http.timeout) == "1s500ms"
    with pytest.raises(ConfigError, match="--http-timeout: '30s' is not a number of seconds"):
        load_config(Component.FRONTEND, environment={}, options={"http_timeout": "30s"})
    with pytest.raises(ConfigError, match="--http-timeout: '-1' is not a number of seconds"):
        load_config(Component.FRONTEND, environment={}, options={"http_timeout": "-1"})


def test_secrets_never_stand_in_a_message(tmp_path: Path) -> None:
    document = '[storage]\ntype = "S3"\nbucket = "b"\nsecret_access_key = 123456\naccess_key_id = ["hunter2"]\n'
    for problem in _problems("standalone", document, tmp_path):
        assert "123456" not in problem
        assert "hunter2" not in problem
