"""A bucket with the files of a cluster, its log and its backups, for commands that run without a server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.server_process import TSDB
from tests.store.services import BUCKET, S3Server

FAILOVER = {"TSDB_METASRV__ENABLE_REGION_FAILOVER": "true"}
QUICK_LOG = {"TSDB_DATANODE__WAL__SHARED__INTERVAL": "20ms", "TSDB_DATANODE__STORAGE__CACHE_CAPACITY": "0"}


class BackupPlace:
    """A bucket with the files of a cluster and its backups, for commands."""

    def __init__(self, s3: S3Server, directory: Path) -> None:
        self.s3 = s3
        self.root = s3.new_root()
        self.directory = directory

    def configuration(self, root: str | None = None) -> Path:
        """A file with the storage of datanodes; with `root`, that of others, and the one that has the backups."""
        common = self._bucket()
        text = f'[storage]\n{common}root = "{root or self.root}"\ndata_home = "{self.directory / "unused"}"\n'
        if root is not None:
            text += f'[[storage.providers]]\nname = "old"\n{common}root = "{self.root}/backup"\n'
        file = self.directory / f"datanode-{'old' if root is None else 'new'}.toml"
        file.write_text(text)
        return file

    def restoring(self, name: str, storage: str) -> Path:
        """A file with a storage to restore to, and that of the lost cluster, with its backups and its log."""
        file = self.directory / f"{name}.toml"
        provider = f'[[storage.providers]]\nname = "old"\n{self._bucket()}root = "{self.root}"\n'
        file.write_text(f"[storage]\n{storage}\n{provider}")
        return file

    def storage(self, root: str) -> str:
        """The storage of datanodes that have their files elsewhere in the bucket."""
        return f'{self._bucket()}root = "{root}"\ndata_home = "{self.directory / "unused"}"'

    def _bucket(self) -> str:
        return (
            f'type = "S3"\nbucket = "{BUCKET}"\nendpoint = "{self.s3.endpoint}"\nregion = "us-east-1"\n'
            'access_key_id = "key"\nsecret_access_key = "top-secret-key"\n'
        )

    def run(self, *arguments: str) -> str:
        command = [*TSDB, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout
