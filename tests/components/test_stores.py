"""From the keys of `[storage]` to stores: each service gets what its section says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.faulty_s3 import faulty_s3
from tests.store.services import BUCKET, S3Server
from tsdb.components._stores import open_stores, remote_settings
from tsdb.config import Component, StorageBase, load_config
from tsdb.errors import StartError
from tsdb.store import CachedStore, LocalStore, RoutedStore

_KEYS = 'access_key_id = "id"\nsecret_access_key = "secret"\n'


def storage(tmp_path: Path, text: str) -> StorageBase:
    """Read a section as a configuration file has it."""
    file = tmp_path / "c.toml"
    file.write_text(f'[wal]\ndir = "{tmp_path}/wal"\n[storage]\n{text}')
    config = load_config(Component.STANDALONE, file=file, environment={}).config
    found: StorageBase = config.storage  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize(
    ("text", "place", "scheme", "arguments"),
    [
        (
            f'type = "S3"\nbucket = "b"\nroot = "r/s/"\nendpoint = "http://e"\nregion = "eu"\n{_KEYS}',
            "s3://b/r/s",
            "s3",
            {
                "bucket": "b",
                "root": "/r/s",
                "endpoint": "http://e",
                "region": "eu",
                "access_key_id": "id",
                "secret_access_key": "secret",
                "disable_config_load": "true",
                "disable_ec2_metadata": "true",
            },
        ),
        ('type = "S3"\nbucket = "b"\nregion = "eu"', "s3://b", "s3", {"bucket": "b", "root": "/", "region": "eu"}),
        (
            'type = "S3"\nbucket = "b"\nendpoint = "http://e"',
            "s3://b",
            "s3",
            {"bucket": "b", "root": "/", "endpoint": "http://e", "region": "us-east-1"},
        ),
        (
            f'type = "Oss"\nbucket = "b"\nroot = "r"\nendpoint = "https://oss.example.com"\n{_KEYS}',
            "oss://b/r",
            "oss",
            {
                "bucket": "b",
                "root": "/r",
                "endpoint": "https://oss.example.com",
                "access_key_id": "id",
                "access_key_secret": "secret",
            },
        ),
        (
            'type = "Oss"\nbucket = "b"\nendpoint = "http://127.0.0.1:1234"',
            "oss://b",
            "oss",
            {"bucket": "b", "root": "/", "endpoint": "http://127.0.0.1:1234", "addressing_style": "path"},
        ),
        (
            'type = "Azblob"\ncontainer = "c"\nroot = "/r"\nendpoint = "http://e"\naccount_name = "n"\n'
            'account_key = "a2V5"\nsas_token = "sas"',
            "azblob://c/r",
            "azblob",
            {
                "container": "c",
                "root": "/r",
                "endpoint": "http://e",
                "account_name": "n",
                "account_key": "a2V5",
                "sas_token": "sas",
            },
        ),
        (
            'type = "Gsc"\nbucket = "b"\nroot = "r"\nscope = "s"\ncredential_path = "/c.json"\nendpoint = "http://e"',
            "gcs://b/r",
            "gcs",
            {
                "bucket": "b",
                "root": "/r",
                "scope": "s",
                "credential_path": "/c.json",
                "endpoint": "http://e",
                "disable_vm_metadata": "true",
            },
        ),
    ],
)
def test_every_key_reaches_its_service(
    tmp_path: Path, text: str, place: str, scheme: str, arguments: dict[str, str]
) -> None:
    settings = remote_settings("default", storage(tmp_path, text))
    assert settings is not None
    assert (settings.place, settings.scheme, settings.arguments) == (place, scheme, arguments)
    assert "secret" not in repr(settings)


def test_a_local_directory_is_no_service(tmp_path: Path) -> None:
    stores = open_stores(storage(tmp_path, f'data_home = "{tmp_path}/d"'))
    assert isinstance(stores.default, LocalStore)
    assert stores.default.root == tmp_path / "d"


def test_stores_are_made_by_name(tmp_path: Path, s3_server: S3Server) -> None:
    text = (
        f'data_home = "{tmp_path}/d"\n'
        f'[[storage.providers]]\ntype = "File"\ndata_home = "{tmp_path}/e"\n'
        f'[[storage.providers]]\nname = "Cold"\ntype = "S3"\nbucket = "{BUCKET}"\nroot = "{s3_server.new_root()}"\n'
        f'endpoint = "{s3_server.endpoint}"\n{_KEYS}'
    )
    stores = open_stores(storage(tmp_path, text))
    assert isinstance(stores.routed, RoutedStore)
    assert {name: type(each) for name, each in stores.providers.items()} == {"file": LocalStore, "cold": CachedStore}
    stores.routed.put("@cold/x", b"there")
    assert stores.providers["cold"].get("x") == b"there"


def test_two_storages_in_one_place_are_refused(tmp_path: Path) -> None:
    text = f'data_home = "{tmp_path}/d"\n[[storage.providers]]\nname = "a"\ntype = "File"\ndata_home = "{tmp_path}/d"'
    with pytest.raises(StartError, match=r"storage a: .* is also the location of storage default"):
        open_stores(storage(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'bucket = "{BUCKET}"\nendpoint = "http://127.0.0.1:1"\n{_KEYS}', "s3://tests: .*Connection refused"),
        ('bucket = "nowhere"\nendpoint = "ENDPOINT"\n' + _KEYS, "s3://nowhere: the bucket or container does not exist"),
    ],
)
def test_a_storage_that_cannot_be_used_prevents_the_start(
    tmp_path: Path, s3_server: S3Server, text: str, message: str
) -> None:
    section = 'type = "S3"\n' + text.replace("ENDPOINT", s3_server.endpoint)
    with pytest.raises(StartError, match=f"storage default: .*{message}"):
        open_stores(storage(tmp_path, section))


def test_a_store_that_overwrites_takes_no_shared_log(s3_server: S3Server, tmp_path: Path) -> None:
    with faulty_s3(s3_server) as (faults, service):
        faults.ignores_conditions = True
        text = f'cache_capacity = "0"\ntype = "S3"\nbucket = "{BUCKET}"\nendpoint = "{service.endpoint}"\n{_KEYS}'
        stores = open_stores(storage(tmp_path, f'root = "{s3_server.new_root()}"\n{text}'))
        assert stores.find("")[1].startswith(f"s3://{BUCKET}/")
        with pytest.raises(StartError, match="creates an object only once") as refused:
            stores.find_for_log("")
        assert "wal.shared.storage" in str(refused.value.hint)
        faults.ignores_conditions = False
        stores = open_stores(storage(tmp_path, f'root = "{s3_server.new_root()}"\n{text}'))
        assert stores.find_for_log("") == stores.find("")
