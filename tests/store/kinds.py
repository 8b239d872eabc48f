"""Every kind of object storage, answered by an emulator: S3, Aliyun OSS, Azure Blob Storage, Google Cloud Storage.

S3 is moto and Azure Blob Storage is Azurite, each a process of its own; the other two are those of `emulators`. A
service is reached by the keys of `[storage]`, as a server reaches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.store.azure import ACCOUNT, ACCOUNT_KEY, running_azurite
from tests.store.emulators import running_gcs, running_oss
from tests.store.services import BUCKET, PATIENT, running_s3
from tsdb.components._stores import remote_settings
from tsdb.config import Component, load_config
from tsdb.store.remote import RemoteStore, RemoteTuning

KINDS = ("S3", "Oss", "Azblob", "Gcs")
SECRET = "top-secret-key"
_PREFIX = "TSDB_STANDALONE__STORAGE__"


@dataclass(frozen=True, slots=True)
class Service:
    """A running service, and the keys of `[storage]` that lead to it."""

    keys: Mapping[str, str]

    def environment(self, root: str, wal: Path) -> dict[str, str]:
        """Return the variables of a standalone server with this storage."""
        keys = {f"{_PREFIX}{name.upper()}": value for name, value in {**self.keys, "root": root}.items()}
        return {**keys, "TSDB_STANDALONE__WAL__DIR": str(wal)}

    def store(self, root: str, tuning: RemoteTuning = PATIENT) -> RemoteStore:
        """Return a store as a server makes it."""
        config = load_config(Component.STANDALONE, environment=self.environment(root, Path("wal"))).config
        settings = remote_settings("default", config.storage)  # type: ignore[union-attr]
        assert settings is not None
        return RemoteStore(settings, tuning=tuning)


@contextmanager
def running_service(kind: str, directory: Path) -> Iterator[Service]:
    """Run the emulator of a kind; `directory` is for files that it needs."""
    keys = {"type": kind, "access_key_id": "id", "secret_access_key": SECRET, "bucket": BUCKET}
    if kind == "S3":
        with running_s3() as server:
            yield Service({**keys, "endpoint": server.endpoint, "region": "us-east-1"})
    elif kind == "Oss":
        with running_oss() as endpoint:
            yield Service({**keys, "endpoint": endpoint})
    elif kind == "Azblob":
        account = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
        with running_azurite() as endpoint:
            yield Service({"type": kind, "container": BUCKET, "endpoint": endpoint, **account})
    else:
        with running_gcs() as endpoint:
            account = {"scope": "storage", "credential_path": str(_credentials(directory, endpoint))}
            yield Service({"type": kind, "bucket": BUCKET, "endpoint": endpoint, **account})


def _credentials(directory: Path, endpoint: str) -> Path:
    """Write the file of an account whose tokens come from the emulator."""
    token = directory / "token"
    token.write_text(SECRET)
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
