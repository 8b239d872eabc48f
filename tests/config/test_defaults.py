"""Defaults that depend on memory or on other keys, and the list of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsdb.config import Component, StandaloneConfig, load_config, render
from tsdb.config._derive import memory_bytes
from tsdb.errors import ConfigError
from tsdb.units import Size


def _standalone(memory: int, **environment: str) -> StandaloneConfig:
    variables = {f"TSDB_STANDALONE__{key}": value for key, value in environment.items()}
    config = load_config(Component.STANDALONE, environment=variables, memory=memory).config
    assert isinstance(config, StandaloneConfig)
    return config


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("512MB", ("64MB", "128MB", "8MB", "32MB", "32MB")),
        ("2GB", ("256MB", "512MB", "32MB", "128MB", "128MB")),
        ("64GB", ("1GB", "2GB", "128MB", "512MB", "512MB")),
    ],
)
def test_sizes_that_are_not_set_are_shares_of_memory(memory: str, expected: tuple[str, ...]) -> None:
    mito = _standalone(Size.parse(memory)).mito
    sizes = (
        mito.global_write_buffer_size,
        mito.global_write_buffer_reject_size,
        mito.sst_meta_cache_size,
        mito.vector_cache_size,
        mito.page_cache_size,
    )
    assert sizes == tuple(Size.parse(text) for text in expected)


def test_reject_size_follows_a_buffer_size_that_is_set() -> None:
    config = _standalone(1 << 30, REGION_ENGINE__0__MITO__GLOBAL_WRITE_BUFFER_SIZE="3GB")
    assert config.mito.global_write_buffer_reject_size == Size.parse("6GB")


def test_directories_lie_below_data_home() -> None:
    config = _standalone(1 << 30, STORAGE__DATA_HOME="/data/x")
    assert config.wal.dir == "/data/x/wal"
    assert config.mito.inverted_index.intermediate_path == "/data/x/index_intermediate"
    assert config.storage.cache_path == "", "local files need no cache"
    remote = _standalone(
        1 << 30, STORAGE__DATA_HOME="/data/x", STORAGE__TYPE="S3", STORAGE__BUCKET="b", WAL__DIR="/data/wal"
    )
    assert remote.storage.cache_path == "/data/x/cache"
    assert remote.storage.cache_capacity == Size.parse("5GB")


def test_origin_of_a_share_says_which_share() -> None:
    shown = render(load_config(Component.STANDALONE, environment={}, memory=2 << 30))
    assert 'vector_cache_size = "128MiB"  # default: 1/8 of memory.limit, at most 512MiB' in shown
    assert 'limit = "1GiB"  # default: half of 2.0GiB memory, at most 4GiB' in shown


@pytest.mark.parametrize(("memory", "limit"), [("300MB", "256MB"), ("2GB", "1GB"), ("64GB", "4GB")])
def test_memory_limit_is_half_of_the_memory(memory: str, limit: str) -> None:
    assert _standalone(Size.parse(memory)).memory.limit == Size.parse(limit)


def test_sizes_follow_a_memory_limit_that_is_set() -> None:
    config = _standalone(64 << 30, MEMORY__LIMIT="512MB")
    assert config.memory.limit == Size.parse("512MB")
    assert config.mito.global_write_buffer_size == Size.parse("128MB")
    assert config.mito.vector_cache_size == Size.parse("64MB")


def test_a_memory_limit_below_what_the_processes_need_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory\.limit.*the minimum is 256MiB"):
        _standalone(64 << 30, MEMORY__LIMIT="100MB")


def _cgroup(root: Path, group: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "104857600\n"}, 104857600),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "209715200\n"}, 209715200),
        ("0::/a\n", {"a/memory.max": "209715200\n", "memory.max": "104857600\n"}, 104857600),
        ("9:cpu,memory:/x\n", {"memory/x/memory.limit_in_bytes": "52428800\n"}, 52428800),
    ],
)
def test_memory_is_the_least_limit_around_the_process(
    group: str, files: dict[str, str], limit: int, tmp_path: Path
) -> None:
    assert memory_bytes(_cgroup(tmp_path, group, files)) == limit


def test_memory_without_limits_is_that_of_the_machine(tmp_path: Path) -> None:
    machine = memory_bytes(tmp_path / "nothing here")
    no_limit = {"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}
    assert memory_bytes(_cgroup(tmp_path, "9:memory:/x\n", no_limit)) == machine


def test_secrets_are_collected_from_everywhere() -> None:
    loaded = load_config(
        Component.STANDALONE,
        environment={
            "TSDB_STANDALONE__USER_PROVIDER": "static_user_provider:cmd:a=hunter2",
            "TSDB_STANDALONE__STORAGE__TYPE": "S3",
            "TSDB_STANDALONE__STORAGE__BUCKET": "b",
            "TSDB_STANDALONE__WAL__DIR": "/w",
            "TSDB_STANDALONE__STORAGE__SECRET_ACCESS_KEY": "s3cr3t-key",
            "TSDB_STANDALONE__STORAGE__PROVIDERS__0__TYPE": "Azblob",
            "TSDB_STANDALONE__STORAGE__PROVIDERS__0__CONTAINER": "c",
            "TSDB_STANDALONE__STORAGE__PROVIDERS__0__ENDPOINT": "e",
            "TSDB_STANDALONE__STORAGE__PROVIDERS__0__SAS_TOKEN": "sas-token",
            "TSDB_STANDALONE__EXPORT_METRICS__REMOTE_WRITE__URL": "http://u:p%20word@h/w",
            "TSDB_STANDALONE__EXPORT_METRICS__REMOTE_WRITE__HEADERS": "Authorization=Basic abc",
        },
    )
    assert {"s3cr3t-key", "sas-token", "Basic abc", "hunter2", "p word"} <= set(loaded.secrets())
    shown = render(loaded)
    for secret in ("hunter2", "s3cr3t-key", "sas-token", "Basic abc", "p%20word"):
        assert secret not in shown
