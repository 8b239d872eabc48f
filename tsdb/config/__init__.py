"""The product's configuration: one model per section, layers with the origin of every value, example files.

Names are loaded when they are first used: the command line needs the option table alone, and has to answer `--help`
without importing the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsdb.config.options import OPTIONS, Component, Option, OptionKind, options_of

if TYPE_CHECKING:
    from tsdb.config._components import (
        ComponentConfig,
        DatanodeConfig,
        FrontendConfig,
        MetasrvConfig,
        StandaloneConfig,
    )
    from tsdb.config._derive import memory_bytes
    from tsdb.config._engine import MitoOptions, WalOptions
    from tsdb.config._example import render_example
    from tsdb.config._fields import AcknowledgeMode, Address, IndexMode, TlsMode
    from tsdb.config._layers import Origin
    from tsdb.config._load import LoadedConfig, load_config
    from tsdb.config._operations import MetaClientOptions, SlowQueryOptions
    from tsdb.config._protocols import TlsOptions
    from tsdb.config._render import render, settings_of
    from tsdb.config._storage import (
        AzblobOptions,
        FileProvider,
        FileStorage,
        GcsOptions,
        OssOptions,
        Provider,
        S3Options,
        StorageBase,
        provider_name,
    )

_LAZY = {
    "Address": "_fields",
    "ComponentConfig": "_components",
    "DatanodeConfig": "_components",
    "AzblobOptions": "_storage",
    "FileProvider": "_storage",
    "FileStorage": "_storage",
    "GcsOptions": "_storage",
    "OssOptions": "_storage",
    "Provider": "_storage",
    "S3Options": "_storage",
    "StorageBase": "_storage",
    "FrontendConfig": "_components",
    "AcknowledgeMode": "_fields",
    "IndexMode": "_fields",
    "LoadedConfig": "_load",
    "MetaClientOptions": "_operations",
    "MetasrvConfig": "_components",
    "MitoOptions": "_engine",
    "Origin": "_layers",
    "SlowQueryOptions": "_operations",
    "StandaloneConfig": "_components",
    "TlsMode": "_fields",
    "TlsOptions": "_protocols",
    "WalOptions": "_engine",
    "load_config": "_load",
    "memory_bytes": "_derive",
    "provider_name": "_storage",
    "render": "_render",
    "settings_of": "_render",
    "render_example": "_example",
}

__all__ = [
    "OPTIONS",
    "AcknowledgeMode",
    "Address",
    "AzblobOptions",
    "Component",
    "ComponentConfig",
    "DatanodeConfig",
    "FileProvider",
    "FileStorage",
    "FrontendConfig",
    "GcsOptions",
    "IndexMode",
    "LoadedConfig",
    "MetaClientOptions",
    "MetasrvConfig",
    "MitoOptions",
    "Option",
    "OptionKind",
    "Origin",
    "OssOptions",
    "Provider",
    "S3Options",
    "SlowQueryOptions",
    "StandaloneConfig",
    "StorageBase",
    "TlsMode",
    "TlsOptions",
    "WalOptions",
    "load_config",
    "memory_bytes",
    "options_of",
    "provider_name",
    "render",
    "render_example",
    "settings_of",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tsdb.config.{_LAZY[name]}"), name)
