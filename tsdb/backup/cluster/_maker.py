"""The datanode that makes a backup of its cluster, and what frontends ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsdb.backup._service import BackupJob, BackupService
from tsdb.backup.cluster._node import BackupNode
from tsdb.backup.cluster._restores import TableRestores
from tsdb.backup.cluster._wire import read_flag, read_id, read_text


class BackupVerbs:
    """All steps of backups that a datanode is asked for."""

    def __init__(self, service: BackupService, node: BackupNode, restores: TableRestores) -> None:
        self._service = service
        self._node = node
        self._restores = restores

    def answer(self, step: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do a step; InvalidArguments if there is none of this name."""
        if step == "start":
            name = None if request.get("name") is None else read_text(request, "name")
            skips_damaged = read_flag(request, "skips_damaged")
            job = self._service.start(read_text(request, "destination"), name, skips_damaged=skips_damaged)
            return {"id": job.id}
        if step in ("state", "cancel"):
            job = self._service.find(read_id(request, "id"))
            if step == "cancel":
                job.cancel()
            return _state(job)
        if step.startswith("restore"):
            return self._restores.answer(step, request)
        return self._node.answer(step, request)

    def close(self) -> None:
        """End the backup and the restore that run here, and release the pins of others."""
        self._restores.close()
        self._service.close()
        self._node.close()


def _state(job: BackupJob) -> dict[str, Any]:
    return {"job": job.describe(), "error": job.error}
