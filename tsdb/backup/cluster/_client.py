"""Backups as a frontend offers them: made by a datanode, polled and cancelled by an id that every frontend accepts.

id = {node}-{id of the backup on that node}
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tsdb.backup._errors import BackupFailed
from tsdb.backup._service import BackupState
from tsdb.errors import DeadlineExceeded, InvalidArguments, TsdbError
from tsdb.model import Peer
from tsdb.remote import NodeUnavailable, RemoteRegions
from tsdb.telemetry import get_logger
from tsdb.units import Duration

AWAY_SECONDS_MAX = 30.0
"""How long the datanode that makes a backup may not answer."""
_TIMEOUT = Duration.of_seconds(15)
_ID = re.compile(r"(\d{1,19})-([0-9a-f]{8,64})")

_log = get_logger("tsdb.backup")


class RemoteJob:
    """One backup, which a datanode makes."""

    def __init__(self, regions: RemoteRegions, peer: Peer, job_id: str) -> None:
        self.id = f"{peer.node_id}-{job_id}"
        self.error: TsdbError | None = None
        self._regions = regions
        self._peer = peer
        self._job_id = job_id
        self._described: dict[str, Any] = {}
        self._heard = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; False if it has not come within this time. BackupFailed if its datanode is gone."""
        if self._look() != BackupState.RUNNING:
            return True
        time.sleep(seconds)
        return False

    def cancel(self) -> None:
        """End it at its next step."""
        self._ask("cancel")

    def describe(self) -> dict[str, Any]:
        """Return how far it has come, for clients."""
        self._ask("state")
        return self._described

    def _look(self) -> str:
        try:
            self._ask("state")
            self._heard = time.monotonic()
        except (NodeUnavailable, DeadlineExceeded) as error:
            if time.monotonic() - self._heard > AWAY_SECONDS_MAX:
                raise BackupFailed(
                    f"datanode {self._peer.node_id}, which made the backup, does not answer: {error}",
                    hint="run it again: files that were copied are not copied again",
                ) from error
            return BackupState.RUNNING
        return str(self._described["state"])

    def _ask(self, step: str) -> None:
        answer = self._regions.backup(self._peer, step, {"id": self._job_id}, timeout=_TIMEOUT)
        self._described = {**answer["job"], "id": self.id}
        self.error = answer["error"]


class RemoteRestore:
    """One table, which a datanode restores."""

    def __init__(self, regions: RemoteRegions, peer: Peer, job_id: str) -> None:
        self.rows = 0
        self.error: TsdbError | None = None
        self._regions = regions
        self._peer = peer
        self._job_id = job_id
        self._heard = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; False if it has not come within this time. BackupFailed if its datanode is gone."""
        try:
            is_ended = self._ask("restore_state")
            self._heard = time.monotonic()
        except (NodeUnavailable, DeadlineExceeded) as error:
            if time.monotonic() - self._heard > AWAY_SECONDS_MAX:
                raise BackupFailed(
                    f"datanode {self._peer.node_id}, which restored the table, does not answer: {error}",
                    hint="try again",
                ) from error
            is_ended = False
        except InvalidArguments as error:
            # It does not know of the restore any more.
            raise BackupFailed(
                f"datanode {self._peer.node_id}, which restored the table, was restarted", hint="try again"
            ) from error
        if not is_ended:
            time.sleep(seconds)
        return is_ended

    def cancel(self) -> None:
        """End it at its next step."""
        self._ask("restore_cancel")

    def _ask(self, step: str) -> bool:
        answer = self._regions.backup(self._peer, step, {"id": self._job_id}, timeout=_TIMEOUT)
        self.rows, self.error = int(answer["rows"]), answer["error"]
        return bool(answer["is_ended"])


class ClusterBackups:
    """The backups of a cluster. Thread-safe."""

    def __init__(self, regions: RemoteRegions, live: Callable[[], Sequence[Peer]]) -> None:
        """`live` are the datanodes with a valid lease."""
        self._regions = regions
        self._live = live

    def start(self, where: str, name: str | None = None, *, skips_damaged: bool = False) -> RemoteJob:
        """Let a datanode begin a backup; Busy if it makes one already."""
        request = {"destination": where, "name": name, "skips_damaged": skips_damaged}
        peer, job_id = self._begin("start", request, "make a backup")
        return RemoteJob(self._regions, peer, job_id)

    def restore_table(self, arguments: Sequence[str], database: str) -> RemoteRestore:
        """Let a datanode restore a table; Busy if it restores one already."""
        request = {"arguments": list(arguments), "database": database}
        peer, job_id = self._begin("restore", request, "restore a table")
        return RemoteRestore(self._regions, peer, job_id)

    def catch_up(self) -> None:
        """Wait until what datanodes have changed can be seen here."""
        self._regions.routes.catch_up()

    def _begin(self, step: str, request: Mapping[str, Any], what: str) -> tuple[Peer, str]:
        """Ask one datanode after the other, until one answers."""
        problem: TsdbError | None = None
        for peer in self._live():
            try:
                return peer, _id_of(self._regions.backup(peer, step, request, timeout=_TIMEOUT))
            except NodeUnavailable as error:
                _log.warning(f"a datanode cannot {what}; another one is asked", peer=peer, error=error)
                problem = error
        raise BackupFailed(f"no datanode that could {what} answers", reason=str(problem), hint="start one")

    def find(self, job_id: str) -> RemoteJob:
        found = _ID.fullmatch(job_id)
        if found is None:
            raise InvalidArguments(f"there is no backup with the id {job_id!r}", hint="start_backup returns it")
        node_id = int(found[1])
        for peer in self._regions.routes.peers():
            if peer.node_id == node_id:
                return RemoteJob(self._regions, peer, found[2])
        raise InvalidArguments(f"there is no datanode {node_id}, which made the backup {job_id!r}")

    def close(self) -> None:
        """Backups go on: datanodes make them."""


def _id_of(answer: Mapping[str, Any]) -> str:
    found = answer.get("id")
    if not isinstance(found, str):
        raise BackupFailed("the answer of a datanode is incomplete; does it run another version?")
    return found
