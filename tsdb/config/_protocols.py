"""The protocol sections: HTTP, gRPC, MySQL, PostgreSQL, OpenTSDB, InfluxDB and Prometheus remote storage."""

from __future__ import annotations

from pydantic import Field

from tsdb.config._fields import (
    Address,
    AddressValue,
    DurationValue,
    EndpointsValue,
    FlagValue,
    OptionalAddressValue,
    PositiveValue,
    Section,
    SizeValue,
    StringValue,
    TlsMode,
    TlsModeValue,
)
from tsdb.units import Duration, Size


class TlsOptions(Section):
    """Transport security of one server."""

    mode: TlsModeValue = Field(
        default=TlsMode.DISABLE,
        description="One of disable, prefer (plain text still accepted), require, verify_ca, verify_full.",
    )
    cert_path: StringValue = Field(default="", description="Certificate file (PEM); needed unless mode is disable.")
    key_path: StringValue = Field(default="", description="Private key file (PEM); needed unless mode is disable.")
    ca_cert_path: StringValue = Field(
        default="",
        description="CA file (PEM) for client certificates, which verify_ca and verify_full then require.",
    )
    watch: FlagValue = Field(
        default=True, description="Reload the certificate for new connections when the files change."
    )


class OperationalHttpOptions(Section):
    """The HTTP server of every component."""

    addr: AddressValue = Field(
        default=Address("127.0.0.1", 4000),
        description="Address the HTTP server listens on; port 0 picks a free one.",
    )
    timeout: DurationValue = Field(
        default=Duration.parse("30s"),
        description="Request timeout; the response is then 408. 0s: no limit.",
    )
    body_limit: SizeValue = Field(
        default=Size.parse("64MB"),
        description="Maximum request body size; larger requests get 413 before the body is read. 0: no limit.",
    )
    public_endpoints: EndpointsValue = Field(
        default=("/", "/health", "/ready", "/status", "/metrics"),
        description=(
            "Operational endpoints that need no login when user_provider is set; /config can be added. "
            "All others require a login, /config and /debug/log_level that of an administrator."
        ),
    )
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the HTTP server.")


class HttpOptions(OperationalHttpOptions):
    """The HTTP API of frontend and standalone."""

    is_strict_mode: FlagValue = Field(
        default=False,
        description="Validate protocol data strictly, such as UTF-8 in Prometheus labels; slightly slower.",
    )
    disable_dashboard: FlagValue = Field(default=False, description="Do not serve the dashboard at /dashboard/.")
    compat_paths: FlagValue = Field(
        default=True,
        description="Also serve other products' APIs under their own paths: /api/v1/… (Prometheus), /write and "
        "/api/v2/write (InfluxDB), /api/put (OpenTSDB), /v1/metrics (OpenTelemetry) and others.",
    )


class GrpcOptions(Section):
    """The gRPC server."""

    addr: AddressValue = Field(default=Address("127.0.0.1", 4001), description="Address the gRPC server listens on.")
    runtime_size: PositiveValue = Field(default=8, description="Number of server worker threads.")
    max_recv_message_size: SizeValue = Field(
        default=Size.parse("512MB"), description="Maximum size of a received message; larger ones are refused."
    )
    max_send_message_size: SizeValue = Field(
        default=Size.parse("512MB"), description="Maximum size of a sent message; larger responses fail."
    )
    max_connections: PositiveValue = Field(default=4096, description="Maximum number of client connections.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="Idle timeout of a connection without calls. 0s: none.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("60s"),
        description="Interval of keep-alive pings on idle connections; unresponsive ones are closed. 0s: none.",
    )
    tls: TlsOptions = Field(
        default=TlsOptions(), description="Transport security of the gRPC server; prefer means plain text here."
    )


class MysqlOptions(Section):
    """The MySQL server."""

    enable: FlagValue = Field(default=True, description="Serve the MySQL protocol.")
    addr: AddressValue = Field(default=Address("127.0.0.1", 4002), description="Address the MySQL server listens on.")
    runtime_size: PositiveValue = Field(default=2, description="Number of server worker threads.")
    max_connections: PositiveValue = Field(default=4096, description="Maximum number of client connections.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="Idle timeout of a connection. 0s: none.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("0s"),
        description="TCP keep-alive interval. 0s: the default of the operating system.",
    )
    prepared_stmt_cache_size: PositiveValue = Field(
        default=10_000, description="Maximum number of prepared statements per connection."
    )
    reject_no_database: FlagValue = Field(default=False, description="Refuse clients that do not select a database.")
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the MySQL server.")


class PostgresOptions(Section):
    """The PostgreSQL server."""

    enable: FlagValue = Field(default=True, description="Serve the PostgreSQL protocol.")
    addr: AddressValue = Field(
        default=Address("127.0.0.1", 4003), description="Address the PostgreSQL server listens on."
    )
    runtime_size: PositiveValue = Field(default=2, description="Number of server worker threads.")
    max_connections: PositiveValue = Field(default=4096, description="Maximum number of client connections.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="Idle timeout of a connection. 0s: none.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("0s"),
        description="TCP keep-alive interval. 0s: the default of the operating system.",
    )
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the PostgreSQL server.")


class OpentsdbOptions(Section):
    """OpenTSDB ingestion, over HTTP and as a telnet server."""

    enable: FlagValue = Field(default=True, description="Serve the OpenTSDB protocol over HTTP and telnet.")
    addr: OptionalAddressValue = Field(
        default=Address("127.0.0.1", 4242),
        description="Address the OpenTSDB telnet server listens on; empty: no telnet server.",
    )
    runtime_size: PositiveValue = Field(default=2, description="Number of telnet server worker threads.")


class InfluxdbOptions(Section):
    """InfluxDB line protocol."""

    enable: FlagValue = Field(default=True, description="Serve the InfluxDB protocol in the HTTP API.")


class PromStoreOptions(Section):
    """Prometheus remote storage."""

    enable: FlagValue = Field(
        default=True, description="Serve Prometheus remote write and remote read in the HTTP API."
    )
    with_metric_engine: FlagValue = Field(
        default=True,
        description="Store remote-written metrics in the metric engine: many metrics in one physical table.",
    )
