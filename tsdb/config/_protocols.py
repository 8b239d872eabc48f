"""The protocol sections: HTTP, gRPC, MySQL, PostgreSQL, OpenTSDB, InfluxDB and Prometheus remote storage."""

from __future__ import annotations

from pydantic import Field

from tsdb.config._fields import (
    Address,
    AddressValue,
    DurationValue,
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
        description="CA file (PEM) of the certificates of clients, which verify_ca and verify_full then ask for.",
    )
    watch: FlagValue = Field(
        default=True, description="Use a new certificate for new connections when the files change."
    )


class OperationalHttpOptions(Section):
    """The HTTP server of every component."""

    addr: AddressValue = Field(
        default=Address("127.0.0.1", 4000),
        description="Address the HTTP server listens on; port 0 picks a free one.",
    )
    timeout: DurationValue = Field(
        default=Duration.parse("30s"),
        description="Longest time a request may take; it is answered 408 then. 0s: no limit.",
    )
    body_limit: SizeValue = Field(
        default=Size.parse("64MB"),
        description="Largest request body; a larger one is answered 413 before it is read. 0: no limit.",
    )
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the HTTP server.")


class HttpOptions(OperationalHttpOptions):
    """The HTTP API of frontend and standalone."""

    is_strict_mode: FlagValue = Field(
        default=False,
        description="Verify protocol data strictly, invalid UTF-8 in Prometheus labels for one; costs a little speed.",
    )
    disable_dashboard: FlagValue = Field(default=False, description="Do not serve the dashboard.")
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
        default=Size.parse("512MB"), description="Largest message that is received; a larger one is refused."
    )
    max_send_message_size: SizeValue = Field(
        default=Size.parse("512MB"), description="Largest message that is sent; larger answers fail."
    )
    max_connections: PositiveValue = Field(default=4096, description="Most clients that may be connected.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="A connection without calls is closed after so long. 0s: never.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("60s"),
        description="Ask a silent client so often whether it is still there, and close if it is not. 0s: never.",
    )
    tls: TlsOptions = Field(
        default=TlsOptions(), description="Transport security of the gRPC server; prefer means plain text here."
    )


class MysqlOptions(Section):
    """The MySQL server."""

    enable: FlagValue = Field(default=True, description="Serve the MySQL protocol.")
    addr: AddressValue = Field(default=Address("127.0.0.1", 4002), description="Address the MySQL server listens on.")
    runtime_size: PositiveValue = Field(default=2, description="Number of server worker threads.")
    max_connections: PositiveValue = Field(default=4096, description="Most clients that may be connected.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="A connection that sends nothing for so long is closed. 0s: never.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("0s"),
        description="Ask the system whether a silent client is still there so often. 0s: as the system is set.",
    )
    prepared_stmt_cache_size: PositiveValue = Field(
        default=10_000, description="Most prepared statements that one connection keeps."
    )
    reject_no_database: FlagValue = Field(default=False, description="Refuse clients that name no database.")
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the MySQL server.")


class PostgresOptions(Section):
    """The PostgreSQL server."""

    enable: FlagValue = Field(default=True, description="Serve the PostgreSQL protocol.")
    addr: AddressValue = Field(
        default=Address("127.0.0.1", 4003), description="Address the PostgreSQL server listens on."
    )
    runtime_size: PositiveValue = Field(default=2, description="Number of server worker threads.")
    max_connections: PositiveValue = Field(default=4096, description="Most clients that may be connected.")
    idle_timeout: DurationValue = Field(
        default=Duration.parse("8h"),
        description="A connection that sends nothing for so long is closed. 0s: never.",
    )
    keep_alive: DurationValue = Field(
        default=Duration.parse("0s"),
        description="Ask the system whether a silent client is still there so often. 0s: as the system is set.",
    )
    tls: TlsOptions = Field(default=TlsOptions(), description="Transport security of the PostgreSQL server.")


class OpentsdbOptions(Section):
    """OpenTSDB ingestion, over HTTP and as a telnet server."""

    enable: FlagValue = Field(default=True, description="Serve the OpenTSDB protocol in the HTTP API and by telnet.")
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
