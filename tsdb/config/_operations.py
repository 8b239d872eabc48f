"""The sections about operating a component: logging and tracing, metrics export, the client of metasrv."""

from __future__ import annotations

from pydantic import Field

from tsdb.config._fields import (
    Address,
    AddressesValue,
    AddressValue,
    AutomaticCountValue,
    FlagValue,
    HeadersValue,
    LogLevel,
    LogLevelValue,
    MemoryLimitValue,
    PositiveDurationValue,
    RatioValue,
    RequiredStringValue,
    Section,
    SlowQueryRecord,
    SlowQueryRecordValue,
    StringValue,
)
from tsdb.units import Duration, Size


class TracingSampleRatioOptions(Section):
    """How many traces are kept. A plain number stands for the table with that `default_ratio`."""

    default_ratio: RatioValue = Field(
        default=1.0,
        description="Fraction of traces to sample, from 0 (none) to 1 (all), unless the client has decided.",
    )


class LoggingOptions(Section):
    """Logs and traces."""

    dir: StringValue = Field(
        default="/tmp/tsdb/logs",
        description="Directory of the log files: hourly log files and a separate error log.",
    )
    level: LogLevelValue = Field(default=LogLevel.INFO, description="Minimum log level: debug, info, warn or error.")
    enable_otlp_tracing: FlagValue = Field(default=False, description="Send traces of requests to a collector.")
    otlp_endpoint: AddressValue = Field(
        default=Address("localhost", 4317), description="Address of the collector (OTLP over gRPC)."
    )
    append_stdout: FlagValue = Field(default=True, description="Also write logs to standard output.")
    tracing_sample_ratio: TracingSampleRatioOptions = Field(
        default=TracingSampleRatioOptions(),
        description="Sampling of traces; a plain number in place of the table sets default_ratio.",
    )


class MemoryOptions(Section):
    """The memory of all processes of the server together."""

    limit: MemoryLimitValue = Field(
        default=Size.parse("4GB"),
        description="Memory of the server and its worker processes together, at least 256MB. Pages of files do not "
        "count. Write buffer, caches, merges and queries share it. When it runs short, caches shrink, regions are "
        "flushed and large queries are refused. Unset: half of the memory, at most 4GiB.",
    )


class QueryOptions(Section):
    """How queries run."""

    workers: AutomaticCountValue = Field(
        default=-1,
        description="Number of worker processes for large queries and queries of several tables, which can then be "
        "cancelled by killing the process. As many again run small queries of concurrent clients. "
        "-1: the number of CPU cores; 0: none, queries run in the server process.",
    )


class SlowQueryOptions(Section):
    """Statements that take long are recorded."""

    enable: FlagValue = Field(default=True, description="Record slow statements.")
    record_type: SlowQueryRecordValue = Field(
        default=SlowQueryRecord.SYSTEM_TABLE,
        description="Target: system_table (tsdb_private.slow_queries) or log (tsdb-…-slow-queries.* in logging.dir).",
    )
    threshold: PositiveDurationValue = Field(
        default=Duration.parse("30s"), description="Statements that take at least this long are slow."
    )
    sample_ratio: RatioValue = Field(default=1.0, description="Share of slow statements to record, from 0 to 1.")
    ttl: PositiveDurationValue = Field(
        default=Duration.parse("90d"), description="How long rows of the system table are kept."
    )


class SelfImportOptions(Section):
    """Metrics written into this database itself."""

    db: RequiredStringValue = Field(
        default="information_schema",
        description="Database that receives the metrics. The default is read-only and stands for tsdb_metrics, which "
        "is created; any other database must exist.",
    )


class RemoteWriteOptions(Section):
    """Metrics sent to another server by Prometheus remote write."""

    url: RequiredStringValue = Field(
        description="Target URL, such as http://127.0.0.1:4000/v1/prometheus/write?db=public."
    )
    headers: HeadersValue = Field(default={}, description="HTTP headers to send, such as Authorization.")


class ExportMetricsOptions(Section):
    """Export of this component's own metrics; at most one of the two methods."""

    enable: FlagValue = Field(default=False, description="Export metrics.")
    write_interval: PositiveDurationValue = Field(
        default=Duration.parse("30s"), description="Export interval, at least 1s."
    )
    self_import: SelfImportOptions | None = Field(
        default=None,
        description="Write the metrics into this database itself (frontend and standalone).",
    )
    remote_write: RemoteWriteOptions | None = Field(
        default=None, description="Send the metrics by Prometheus remote write."
    )


class StoreTlsOptions(Section):
    """Files for TLS between metasrv and etcd, read at the start. With one of them, TLS is used."""

    ca_cert_path: StringValue = Field(
        default="",
        description="CA file (PEM) to verify etcd with. Empty: the CAs of the system.",
    )
    cert_path: StringValue = Field(
        default="", description="Client certificate file (PEM), for etcd with --client-cert-auth."
    )
    key_path: StringValue = Field(default="", description="Private key file (PEM) of the client certificate.")


class MetaClientOptions(Section):
    """The connection of frontend and datanode to metasrv."""

    metasrv_addrs: AddressesValue = Field(
        default=(Address("127.0.0.1", 3002),),
        description="Addresses of all metasrv processes.",
    )
    timeout: PositiveDurationValue = Field(default=Duration.parse("3s"), description="Timeout of one operation.")
    connect_timeout: PositiveDurationValue = Field(default=Duration.parse("1s"), description="Connection timeout.")
    ddl_timeout: PositiveDurationValue = Field(
        default=Duration.parse("10s"), description="Timeout of one DDL statement."
    )
    tcp_nodelay: FlagValue = Field(default=True, description="Set TCP_NODELAY on the connections.")
