"""OSS and Google Cloud Storage as the configuration reaches them, answered by emulators."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.emulators import BUCKET, running_gcs, running_oss
from tests.store.services import PATIENT
from tsdb.components._stores import remote_settings
from tsdb.config import Component, load_config
from tsdb.store import InvalidRange, ObjectExists, ObjectNotFound
from tsdb.store.remote import RemoteStore


def store_of(tmp_path: Path, section: str) -> RemoteStore:
    """Make a store as a server does."""
    file = tmp_path / "c.toml"
    file.write_text(f'[wal]\ndir = "w"\n[storage]\n{section}\nbucket = "{BUCKET}"\nroot = "some/root"\n')
    config = load_config(Component.STANDALONE, file=file, environment={}).config
    settings = remote_settings("default", config.storage)  # type: ignore[union-attr]
    assert settings is not None
    return RemoteStore(settings, tuning=PATIENT)


def credentials(directory: Path, endpoint: str) -> Path:
    """Write the file of an account whose tokens come from the emulator."""
    token = directory / "token"
    token.write_text("subject")
    account = {
        "type": "external_account",
        "audience": "tests",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{endpoint}/token",
        "credential_source": {"file": str(token), "format": {"type": "text"}},
    }
    file = directory / "account.json"
    file.write_text(json.dumps(account))
    return file


@pytest.fixture(params=["Oss", "Gcs", "Gsc"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteStore]:
    if request.param == "Oss":
        with running_oss() as endpoint:
            keys = 'access_key_id = "id"\nsecret_access_key = "secret"'
            yield store_of(tmp_path, f'type = "Oss"\nendpoint = "{endpoint}"\n{keys}')
        return
    with running_gcs() as endpoint:
        file = credentials(tmp_path, endpoint)
        section = f'type = "{request.param}"\nendpoint = "{endpoint}"\ncredential_path = "{file}"\n'
        yield store_of(tmp_path, f'{section}scope = "https://www.googleapis.com/auth/devstorage.read_write"')


def test_a_service_stores_objects_and_creates_them_only_once(store: RemoteStore) -> None:
    store.probe()
    assert store.creates_only_once
    names = [f"d/{number}" for number in range(8)]
    for name in names:
        store.put_if_absent(name, name.encode())
    with pytest.raises(ObjectExists):
        store.put_if_absent("d/3", b"other")
    assert store.get("d/3") == b"d/3"
    store.put("d/3", b"0123456789")
    assert store.get_range("d/3", 2, 3) == b"234"
    with pytest.raises(InvalidRange, match="size_bytes: 10"):
        store.get_range("d/3", 8, 3)
    assert store.head("d/3").size_bytes == 10
    assert [meta.path for meta in store.list("d")] == names
    assert [meta.path for meta in store.list("d", "d/4")] == names[5:]
    store.delete("d/0")
    store.delete("d/0")
    with pytest.raises(ObjectNotFound):
        store.head("d/0")
    with pytest.raises(ObjectNotFound):
        store.get("d/0")
    store.delete_prefix("d")
    assert list(store.list("")) == []
