"""The command line as one table: which option sets which key, for which components.

Help, parsing, the top layer of the configuration and the documentation all read `OPTIONS`. The module imports nothing
heavy, because `--help` needs it and has to answer at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Component(StrEnum):
    """The four components."""

    STANDALONE = "standalone"
    FRONTEND = "frontend"
    DATANODE = "datanode"
    METASRV = "metasrv"

    @property
    def env_prefix(self) -> str:
        """The default prefix of this component's environment variables."""
        return f"TSDB_{self.name}"


class OptionKind(StrEnum):
    """What an option's argument looks like."""

    TEXT = "text"
    FLAG = "flag"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Option:
    """One command-line option."""

    name: str
    metavar: str
    meaning: str
    group: str
    keys: Mapping[Component, tuple[str, ...]]
    """The configuration keys it sets, for each component that has it."""
    kind: OptionKind = OptionKind.TEXT
    default: str = ""
    """The default of its key, for help; checked against the models by a test."""

    @property
    def parameter(self) -> str:
        """The name of its value in code: `--http-addr` is `http_addr`."""
        return self.name.removeprefix("--").replace("-", "_")


_S, _F, _D, _M = Component.STANDALONE, Component.FRONTEND, Component.DATANODE, Component.METASRV


def _same(components: Iterable[Component], *keys: str) -> Mapping[Component, tuple[str, ...]]:
    return dict.fromkeys(components, keys)


CONFIGURATION = "Configuration"
SERVERS = "Servers"
STORAGE = "Storage"
CLUSTER = "Cluster"
SECURITY = "Security"
LOGGING = "Logging"

OPTIONS: tuple[Option, ...] = (
    Option(
        "--http-addr",
        "HOST:PORT",
        "HTTP server address",
        SERVERS,
        _same((_D, _M, _F, _S), "http.addr"),
        default="127.0.0.1:4000",
    ),
    Option(
        "--http-timeout",
        "SECONDS",
        "HTTP request timeout in seconds",
        SERVERS,
        _same((_D, _M, _F), "http.timeout"),
        kind=OptionKind.SECONDS,
        default="30",
    ),
    Option(
        "--rpc-addr",
        "HOST:PORT",
        "gRPC server address",
        SERVERS,
        _same((_F, _S), "grpc.addr"),
        default="127.0.0.1:4001",
    ),
    Option(
        "--rpc-addr",
        "HOST:PORT",
        "gRPC server address of this datanode",
        SERVERS,
        _same((_D,), "rpc_addr"),
        default="127.0.0.1:3001",
    ),
    Option(
        "--rpc-hostname",
        "HOST",
        "Host name that other nodes use for this datanode",
        SERVERS,
        _same((_D,), "rpc_hostname"),
    ),
    Option(
        "--mysql-addr",
        "HOST:PORT",
        "MySQL server address",
        SERVERS,
        _same((_F, _S), "mysql.addr"),
        default="127.0.0.1:4002",
    ),
    Option(
        "--postgres-addr",
        "HOST:PORT",
        "PostgreSQL server address",
        SERVERS,
        _same((_F, _S), "postgres.addr"),
        default="127.0.0.1:4003",
    ),
    Option(
        "--opentsdb-addr",
        "HOST:PORT",
        "OpenTSDB telnet server address",
        SERVERS,
        _same((_F, _S), "opentsdb.addr"),
        default="127.0.0.1:4242",
    ),
    Option(
        "--influxdb-enable",
        "[BOOL]",
        "Enable the InfluxDB protocol in the HTTP API",
        SERVERS,
        _same((_F, _S), "influxdb.enable"),
        kind=OptionKind.FLAG,
        default="true",
    ),
    Option(
        "--disable-dashboard",
        "[BOOL]",
        "Disable the dashboard",
        SERVERS,
        _same((_F,), "http.disable_dashboard"),
        kind=OptionKind.FLAG,
        default="false",
    ),
    Option(
        "--bind-addr",
        "HOST:PORT",
        "gRPC server address of this metasrv",
        SERVERS,
        _same((_M,), "bind_addr"),
        default="127.0.0.1:3002",
    ),
    Option(
        "--server-addr",
        "HOST:PORT",
        "Address that frontends and datanodes use for this metasrv",
        SERVERS,
        _same((_M,), "server_addr"),
        default="127.0.0.1:3002",
    ),
    Option(
        "--data-home",
        "DIR",
        "Root directory of the data",
        STORAGE,
        _same((_D, _S), "storage.data_home"),
        default="/tmp/tsdb",
    ),
    Option(
        "--wal-dir",
        "DIR",
        "Directory of the write-ahead log; default {data_home}/wal with local storage",
        STORAGE,
        _same((_D,), "wal.dir"),
    ),
    Option(
        "--node-id",
        "N",
        "Identifier of this datanode, unique in the cluster",
        CLUSTER,
        _same((_D,), "node_id"),
    ),
    Option(
        "--metasrv-addrs",
        "ADDRS",
        "Metasrv addresses, separated by commas",
        CLUSTER,
        _same((_D,), "meta_client.metasrv_addrs"),
        default="127.0.0.1:3002",
    ),
    Option(
        "--metasrv-addr",
        "ADDRS",
        "Metasrv addresses, separated by commas",
        CLUSTER,
        _same((_F, _D), "meta_client.metasrv_addrs"),
        default="127.0.0.1:3002",
    ),
    Option(
        "--store-addrs",
        "ADDRS",
        "Addresses of the metadata store (etcd), separated by commas or spaces",
        CLUSTER,
        _same((_M,), "store_addr"),
        default="127.0.0.1:2379",
    ),
    Option(
        "--store-addr",
        "ADDRS",
        "The same as --store-addrs",
        CLUSTER,
        _same((_M,), "store_addr"),
        default="127.0.0.1:2379",
    ),
    Option(
        "--selector",
        "NAME",
        "Datanode selection for new tables: lease_based or load_based",
        CLUSTER,
        _same((_M,), "selector"),
        default="lease_based",
    ),
    Option(
        "--use-memory-store",
        "[BOOL]",
        "Keep metadata in memory instead of etcd; for tests only",
        CLUSTER,
        _same((_M,), "use_memory_store"),
        kind=OptionKind.FLAG,
        default="false",
    ),
    Option(
        "--enable-region-failover",
        "[BOOL]",
        "Move the regions of a lost datanode to others",
        CLUSTER,
        _same((_M,), "enable_region_failover"),
        kind=OptionKind.FLAG,
        default="false",
    ),
    Option(
        "--tls-mode",
        "MODE",
        "TLS mode of MySQL and PostgreSQL: disable, prefer, require, verify-ca or verify-full",
        SECURITY,
        _same((_F,), "mysql.tls.mode", "postgres.tls.mode"),
        default="disable",
    ),
    Option(
        "--tls-cert-path",
        "FILE",
        "TLS certificate of MySQL and PostgreSQL",
        SECURITY,
        _same((_F,), "mysql.tls.cert_path", "postgres.tls.cert_path"),
    ),
    Option(
        "--tls-key-path",
        "FILE",
        "TLS private key of MySQL and PostgreSQL",
        SECURITY,
        _same((_F,), "mysql.tls.key_path", "postgres.tls.key_path"),
    ),
    Option(
        "--user-provider",
        "PROVIDER",
        "User provider, such as static_user_provider:file:users.txt",
        SECURITY,
        _same((_F, _S), "user_provider"),
    ),
    Option(
        "--log-dir",
        "DIR",
        "Directory of the log files",
        LOGGING,
        _same(Component, "logging.dir"),
        default="/tmp/tsdb/logs",
    ),
    Option(
        "--log-level",
        "LEVEL",
        "Minimum log level: debug, info, warn or error",
        LOGGING,
        _same(Component, "logging.level"),
        default="info",
    ),
)


def options_of(component: Component) -> tuple[Option, ...]:
    """Return the options that a component has, in the order of the table."""
    return tuple(option for option in OPTIONS if component in option.keys)
