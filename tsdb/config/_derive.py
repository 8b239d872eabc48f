"""Defaults that depend on the machine or on other keys: parts of the memory limit, directories below `data_home`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel

from tsdb.config._components import ComponentConfig, DatanodeConfig, FrontendConfig, MetasrvConfig
from tsdb.config._engine import MitoOptions
from tsdb.config._fields import LIMIT_MIN
from tsdb.config._layers import Origin
from tsdb.config._schema import Path
from tsdb.config._storage import StorageType
from tsdb.units import Size

_MITO: Path = ("region_engine", 0, "mito")

_LIMIT: Path = ("memory", "limit")
LIMIT_MAX = Size.parse("4GB")
"""What the parts below add up to when each is as large as it gets, with a quarter for queries and some for the rest."""

# Key of mito → the fraction of the memory limit it takes when it is not set, and the most it takes then.
_MEMORY_SHARES: dict[str, tuple[int, Size]] = {
    "global_write_buffer_size": (4, Size.parse("1GB")),
    "sst_meta_cache_size": (32, Size.parse("128MB")),
    "vector_cache_size": (8, Size.parse("512MB")),
    "page_cache_size": (8, Size.parse("512MB")),
}

_INTERMEDIATE: Path = (*_MITO, "inverted_index", "intermediate_path")


def derived_paths() -> frozenset[Path]:
    """Return the keys whose default is not a constant but a fraction of memory."""
    shares = {(*_MITO, key) for key in (*_MEMORY_SHARES, "global_write_buffer_reject_size")}
    return frozenset({_LIMIT, *shares})


# A cgroup without a limit reports a number near 2^63; anything this large is no limit.
_NO_LIMIT = 1 << 60


def memory_bytes(root: FilePath = FilePath("/")) -> int:
    """Return the memory this process may use: the least limit of its control groups, or the machine's memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_cgroup_limits(root)])


def _cgroup_limits(root: FilePath) -> Iterator[int]:
    """Yield the memory limits of this process' control group and of those around it, version 2 and 1."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        base, name = mount, "memory.max"
        if controllers:
            if "memory" not in controllers.split(","):
                continue
            base, name = mount / "memory", "memory.limit_in_bytes"
        inner = PurePath(group.lstrip("/"))
        for directory in (inner, *inner.parents):
            text = _read(base / directory / name).strip()
            if text.isdecimal() and int(text) < _NO_LIMIT:
                yield int(text)


def _read(path: FilePath) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def derive(
    config: ComponentConfig, origins: Mapping[Path, Origin], memory: int
) -> tuple[ComponentConfig, dict[Path, Origin]]:
    """Fill in the defaults that are not constants, and say what each was made from."""
    found: dict[Path, Origin] = {}
    if isinstance(config, MetasrvConfig):
        return config, found
    limit = config.memory.limit
    if _LIMIT not in origins:
        limit = Size(max(LIMIT_MIN, min(memory // 2, LIMIT_MAX)))
        found[_LIMIT] = Origin("default", f"half of {_rounded(memory)} memory, at most {LIMIT_MAX}")
        config = _with(config, memory=_with(config.memory, limit=limit))
    if isinstance(config, FrontendConfig) or not config.region_engine:
        return config, found
    given = {path[len(_MITO)] for path in origins if path[: len(_MITO)] == _MITO and len(path) > len(_MITO)}
    sizes = dict(_mito_sizes(config.mito, given, limit))
    home = config.storage.data_home
    found |= {(*_MITO, key): Origin("default", reason) for key, (_, reason) in sizes.items()}
    mito: MitoOptions = _with(config.mito, **{key: size for key, (size, _) in sizes.items()})
    if not mito.inverted_index.intermediate_path:
        path = os.path.join(home, "index_intermediate")
        mito = _with(mito, inverted_index=_with(mito.inverted_index, intermediate_path=path))
        found[_INTERMEDIATE] = Origin("default", "below storage.data_home")
    engine = [_with(config.region_engine[0], mito=mito), *config.region_engine[1:]]
    wal = config.wal
    if not wal.dir and config.storage.type is StorageType.FILE:
        wal = _with(wal, dir=os.path.join(home, "wal"))
        found["wal", "dir"] = Origin("default", "below storage.data_home")
    if wal.shared.enable == "auto":
        is_shared = isinstance(config, DatanodeConfig) and config.storage.type is not StorageType.FILE
        wal = _with(wal, shared=_with(wal.shared, enable=is_shared))
        found["wal", "shared", "enable"] = Origin("default", "auto: on for datanodes whose storage is not File")
    storage = config.storage
    if not storage.cache_path and (storage.type is not StorageType.FILE or storage.providers):
        storage = _with(storage, cache_path=os.path.join(home, "cache"))
        found["storage", "cache_path"] = Origin("default", "below storage.data_home")
    return _with(config, region_engine=engine, wal=wal, storage=storage), found


def _mito_sizes(mito: MitoOptions, given: set[str | int], limit: int) -> Iterator[tuple[str, tuple[Size, str]]]:
    buffer = mito.global_write_buffer_size
    for key, (share, most) in _MEMORY_SHARES.items():
        if key in given:
            continue
        size = Size(min(limit // share, most))
        yield key, (size, f"1/{share} of memory.limit, at most {most}")
        if key == "global_write_buffer_size":
            buffer = size
    if "global_write_buffer_reject_size" not in given:
        yield "global_write_buffer_reject_size", (Size(2 * buffer), "2 x global_write_buffer_size")


def _rounded(size: int) -> str:
    return f"{size / (1 << 30):.1f}GiB"


M = TypeVar("M", bound=BaseModel)


def _with(model: M, **changes: Any) -> M:
    return model.model_copy(update=changes)
