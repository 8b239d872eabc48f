"""The whole configuration of each of the four components."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from tsdb.config._engine import MitoOptions, RegionEngineOptions, WalOptions
from tsdb.config._fields import (
    Address,
    AddressValue,
    CountValue,
    FlagValue,
    JoinedAddresses,
    JoinedAddressesValue,
    PositiveValue,
    RequiredStringValue,
    SecretValue,
    Section,
    Selector,
    SelectorValue,
    StoreAddress,
    StringValue,
)
from tsdb.config._operations import (
    ExportMetricsOptions,
    LoggingOptions,
    MemoryOptions,
    MetaClientOptions,
    QueryOptions,
    SlowQueryOptions,
    StoreTlsOptions,
)
from tsdb.config._protocols import (
    GrpcOptions,
    HttpOptions,
    InfluxdbOptions,
    MysqlOptions,
    OpentsdbOptions,
    OperationalHttpOptions,
    PostgresOptions,
    PromStoreOptions,
)
from tsdb.config._storage import FileStorage, StorageOptions
from tsdb.config.options import Component

_HOME_MEANING = (
    "Working directory. Only one metasrv may use it; the metadata itself is in etcd. A frontend uses it for COPY files "
    "and for large queries that spill to disk. Empty: queries spill to a temporary directory, and COPY cannot read or "
    "write files."
)
_MODE_MEANING = "Operation mode: standalone for standalone, distributed for frontend and datanode."


class _Common(Section):
    """What all four components have."""

    logging: LoggingOptions = Field(default=LoggingOptions(), description="Logs and traces.")
    export_metrics: ExportMetricsOptions = Field(
        default=ExportMetricsOptions(), description="Export of this component's own metrics."
    )


class _Protocols(Section):
    """What the components with protocol servers have."""

    user_provider: SecretValue = Field(
        default=SecretStr(""),
        description="User provider: static_user_provider:cmd:<user>=<password>,…, "
        "static_user_provider:file:<path>, watch_file_user_provider:<path>, or catalog_user_provider for users "
        "created with CREATE USER. Empty: no authentication.",
    )
    http: HttpOptions = Field(default=HttpOptions(), description="The HTTP API.")
    grpc: GrpcOptions = Field(default=GrpcOptions(), description="The gRPC server.")
    mysql: MysqlOptions = Field(default=MysqlOptions(), description="The MySQL server.")
    postgres: PostgresOptions = Field(default=PostgresOptions(), description="The PostgreSQL server.")
    opentsdb: OpentsdbOptions = Field(default=OpentsdbOptions(), description="OpenTSDB ingestion.")
    influxdb: InfluxdbOptions = Field(default=InfluxdbOptions(), description="InfluxDB line protocol.")
    prom_store: PromStoreOptions = Field(default=PromStoreOptions(), description="Prometheus remote storage.")
    query: QueryOptions = Field(default=QueryOptions(), description="How queries run.")
    slow_query: SlowQueryOptions = Field(default=SlowQueryOptions(), description="The record of slow statements.")


class _Storing(Section):
    """What the components that store data have."""

    storage: StorageOptions = Field(default=FileStorage(), description="Storage of the data files.")
    wal: WalOptions = Field(default=WalOptions(), description="The write-ahead log.")
    memory: MemoryOptions = Field(
        default=MemoryOptions(), description="The memory of all processes of the server together."
    )
    region_engine: list[RegionEngineOptions] = Field(
        default=[RegionEngineOptions()], description="Region engines; only mito has options."
    )

    @property
    def mito(self) -> MitoOptions:
        """The options of the mito engine, wherever its table stands."""
        return self.region_engine[0].mito if self.region_engine else MitoOptions()


class StandaloneConfig(_Common, _Storing, _Protocols):
    """The whole database in one process."""

    mode: Literal["standalone"] = Field(default="standalone", description=_MODE_MEANING)


class FrontendConfig(_Common, _Protocols):
    """The protocol servers of a cluster."""

    mode: Literal["distributed"] = Field(default="distributed", description=_MODE_MEANING)
    data_home: StringValue = Field(
        default="",
        description=_HOME_MEANING,
    )
    memory: MemoryOptions = Field(
        default=MemoryOptions(), description="The memory of all processes of the server together."
    )
    meta_client: MetaClientOptions = Field(default=MetaClientOptions(), description="The connection to metasrv.")


class DatanodeConfig(_Common, _Storing):
    """The storage of a cluster."""

    mode: Literal["distributed"] = Field(default="distributed", description=_MODE_MEANING)
    node_id: CountValue = Field(description="Identifier of this datanode, unique in the cluster. Required.")
    rpc_addr: AddressValue = Field(
        default=Address("127.0.0.1", 3001),
        description="Address the gRPC server listens on.",
    )
    rpc_hostname: StringValue = Field(
        default="",
        description="Host name that other nodes use for this one. Empty: the host of rpc_addr.",
    )
    rpc_runtime_size: PositiveValue = Field(default=8, description="Number of gRPC server worker threads.")
    http: OperationalHttpOptions = Field(
        default=OperationalHttpOptions(), description="The HTTP server with the operational endpoints."
    )
    meta_client: MetaClientOptions = Field(default=MetaClientOptions(), description="The connection to metasrv.")


class MetasrvConfig(_Common):
    """The metadata of a cluster."""

    data_home: RequiredStringValue = Field(
        default="/tmp/metasrv/",
        description=_HOME_MEANING,
    )
    bind_addr: AddressValue = Field(
        default=Address("127.0.0.1", 3002),
        description="Address the gRPC server listens on.",
    )
    server_addr: AddressValue = Field(
        default=Address("127.0.0.1", 3002),
        description="Address that frontends and datanodes use for this process.",
    )
    store_addr: JoinedAddressesValue = Field(
        default=JoinedAddresses((StoreAddress("127.0.0.1", 2379),)),
        description="Addresses of the etcd servers, separated by commas: host:port, or https://host:port with TLS. "
        "With [store_tls], those without https:// use TLS, too.",
    )
    store_username: StringValue = Field(
        default="",
        description="User name in etcd; the user needs read and write access to the keys with the prefix tsdb/. "
        "Empty: no login.",
    )
    store_password: SecretValue = Field(default=SecretStr(""), description="Password of store_username.")
    selector: SelectorValue = Field(
        default=Selector.LEASE_BASED,
        description="Datanode selection for new tables: lease_based (any live one) or load_based.",
    )
    use_memory_store: FlagValue = Field(
        default=False,
        description="Keep the metadata in memory instead of etcd; for tests only, it is lost on exit.",
    )
    enable_region_failover: FlagValue = Field(
        default=False,
        description="Move the regions of a lost datanode to others; requires a shared log, and storage that all "
        "datanodes can reach.",
    )
    http: OperationalHttpOptions = Field(
        default=OperationalHttpOptions(), description="The HTTP server with the operational endpoints."
    )
    store_tls: StoreTlsOptions = Field(
        default=StoreTlsOptions(), description="TLS between metasrv and etcd; with one of these files it is used."
    )


ComponentConfig = StandaloneConfig | FrontendConfig | DatanodeConfig | MetasrvConfig

CONFIG_MODELS: dict[Component, type[ComponentConfig]] = {
    Component.STANDALONE: StandaloneConfig,
    Component.FRONTEND: FrontendConfig,
    Component.DATANODE: DatanodeConfig,
    Component.METASRV: MetasrvConfig,
}
