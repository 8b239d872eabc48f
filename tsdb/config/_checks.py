"""Rules between keys. Each is a function from a configuration to problems, named by the keys they concern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from tsdb.config._components import (
    ComponentConfig,
    DatanodeConfig,
    FrontendConfig,
    MetasrvConfig,
    StandaloneConfig,
)
from tsdb.config._fields import Address, TlsMode
from tsdb.config._schema import Path, dotted
from tsdb.config._storage import StorageType, provider_name
from tsdb.units import Duration

Problem = tuple[tuple[Path, ...], str]
"""The paths a problem is about, the one to blame first, and its text."""

_MITO: Path = ("region_engine", 0, "mito")
_PROVIDER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EXPORT_INTERVAL_MIN = Duration.parse("1s")


def find_problems(config: ComponentConfig) -> Iterator[Problem]:
    """Apply every rule."""
    for rule in _RULES:
        yield from rule(config)


def _one_mito_engine(config: ComponentConfig) -> Iterator[Problem]:
    if isinstance(config, StandaloneConfig | DatanodeConfig) and len(config.region_engine) > 1:
        yield (("region_engine", 1, "mito"),), "mito is configured more than once, keep one entry"


def _reject_above_buffer(config: ComponentConfig) -> Iterator[Problem]:
    if not isinstance(config, StandaloneConfig | DatanodeConfig):
        return
    mito = config.mito
    if mito.global_write_buffer_reject_size <= mito.global_write_buffer_size:
        paths = (*_MITO, "global_write_buffer_reject_size"), (*_MITO, "global_write_buffer_size")
        yield (
            paths,
            f"{mito.global_write_buffer_reject_size} is not larger than global_write_buffer_size, "
            f"{mito.global_write_buffer_size}",
        )


def _wal_directory_is_known(config: ComponentConfig) -> Iterator[Problem]:
    if not isinstance(config, StandaloneConfig | DatanodeConfig):
        return
    if not config.wal.dir and config.storage.type is not StorageType.FILE:
        yield (
            (("wal", "dir"), ("storage", "type")),
            f"is required with storage type {config.storage.type}: the log stays on a local disk",
        )


def _shared_log_has_a_storage(config: ComponentConfig) -> Iterator[Problem]:
    if not isinstance(config, StandaloneConfig | DatanodeConfig):
        return
    shared, path = config.wal.shared, ("wal", "shared")
    names = [provider_name(each).lower() for each in config.storage.providers]
    if shared.storage and shared.storage.lower() not in names:
        known = ", ".join(names) or "none"
        yield ((*path, "storage"),), f"{shared.storage!r} is not the name of a storage provider; there are: {known}"
    if shared.enable is True and not shared.storage and config.storage.type is StorageType.FILE:
        yield (
            ((*path, "enable"), ("storage", "type")),
            "the log cannot be shared with storage type File: choose another type, or a provider by wal.shared.storage",
        )


def _providers_have_names(config: ComponentConfig) -> Iterator[Problem]:
    """A table names its storage in lower or upper case, and its files lie below that name."""
    if not isinstance(config, StandaloneConfig | DatanodeConfig):
        return
    seen: dict[str, int] = {}
    for number, provider in enumerate(config.storage.providers):
        path: Path = ("storage", "providers", number, "name")
        name = provider_name(provider)
        if not _PROVIDER_NAME.fullmatch(name):
            yield (path,), f"{name!r} is not a name of a storage, expected letters, digits, _ and -"
        elif name.lower() in seen:
            yield (path,), f"{name!r} is the name of storage.providers[{seen[name.lower()]}] too"
        seen.setdefault(name.lower(), number)


def _tls_has_certificate_and_key(config: ComponentConfig) -> Iterator[Problem]:
    servers = [("http", config.http.tls, True)]
    if isinstance(config, StandaloneConfig | FrontendConfig):
        servers += [
            ("grpc", config.grpc.tls, True),
            ("mysql", config.mysql.tls, config.mysql.enable),
            ("postgres", config.postgres.tls, config.postgres.enable),
        ]
    for name, tls, is_enabled in servers:
        if not is_enabled or tls.mode is TlsMode.DISABLE:
            continue
        for key in ("cert_path", "key_path"):
            if not getattr(tls, key):
                yield ((name, "tls", key), (name, "tls", "mode")), f"is required with TLS mode {tls.mode}"


def _store_access_is_whole(config: ComponentConfig) -> Iterator[Problem]:
    """What is needed to reach etcd is there together, and TLS is used when it is configured."""
    if not isinstance(config, MetasrvConfig):
        return
    tls = config.store_tls
    given: dict[Path, bool] = {
        ("store_username",): bool(config.store_username),
        ("store_password",): bool(config.store_password.get_secret_value()),
        ("store_tls", "cert_path"): bool(tls.cert_path),
        ("store_tls", "key_path"): bool(tls.key_path),
    }
    for one, other in (
        (("store_username",), ("store_password",)),
        (("store_tls", "cert_path"), ("store_tls", "key_path")),
    ):
        for missing, present in ((one, other), (other, one)):
            if given[present] and not given[missing]:
                yield (missing, present), f"is required with {dotted(present)}"
    files = {key: getattr(tls, key) for key in ("ca_cert_path", "cert_path", "key_path")}
    plain = [address for address in config.store_addr if address.scheme == "http"]
    if plain and any(files.values()):
        key = next(key for key, path in files.items() if path)
        yield (("store_addr",), ("store_tls", key)), f"{plain[0]} is without TLS, but store_tls.{key} is set"


def _one_export_method(config: ComponentConfig) -> Iterator[Problem]:
    export = config.export_metrics
    root = ("export_metrics",)
    if export.self_import is not None and not isinstance(config, StandaloneConfig | FrontendConfig):
        yield (
            ((*root, "self_import"),),
            "only frontend and standalone can import their own metrics, use export_metrics.remote_write",
        )
    if export.self_import is not None and export.remote_write is not None:
        yield (
            ((*root, "remote_write"), (*root, "self_import")),
            "exactly one of self_import and remote_write is allowed",
        )
    if export.enable and export.self_import is None and export.remote_write is None:
        yield (
            ((*root, "enable"),),
            "one of export_metrics.self_import and export_metrics.remote_write is needed",
        )
    if export.write_interval < _EXPORT_INTERVAL_MIN:
        yield ((*root, "write_interval"),), f"{export.write_interval} is too short, expected at least 1s"
    if export.remote_write is not None:
        url = urlsplit(export.remote_write.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            yield (
                ((*root, "remote_write", "url"),),
                "is not an address of HTTP, expected http://host:port/v1/prometheus/write?db=name",
            )


def _addresses_differ(config: ComponentConfig) -> Iterator[Problem]:
    seen: dict[Address, Path] = {}
    for path, address in _listening(config):
        if address.port and address in seen:
            other = ".".join(str(part) for part in seen[address])
            yield (path, seen[address]), f"{address} is the address of {other} too"
        seen.setdefault(address, path)


def _listening(config: ComponentConfig) -> Iterator[tuple[Path, Address]]:
    """Yield the addresses a component listens on, with their keys."""
    yield ("http", "addr"), config.http.addr
    if isinstance(config, DatanodeConfig):
        yield ("rpc_addr",), config.rpc_addr
    elif isinstance(config, MetasrvConfig):
        yield ("bind_addr",), config.bind_addr
    else:
        yield ("grpc", "addr"), config.grpc.addr
        if config.mysql.enable:
            yield ("mysql", "addr"), config.mysql.addr
        if config.postgres.enable:
            yield ("postgres", "addr"), config.postgres.addr
        if config.opentsdb.enable and config.opentsdb.addr is not None:
            yield ("opentsdb", "addr"), config.opentsdb.addr


_RULES: tuple[Callable[[ComponentConfig], Iterator[Problem]], ...] = (
    _one_mito_engine,
    _reject_above_buffer,
    _wal_directory_is_known,
    _shared_log_has_a_storage,
    _providers_have_names,
    _tls_has_certificate_and_key,
    _store_access_is_whole,
    _one_export_method,
    _addresses_differ,
)
