"""The metadata of a restored cluster: from a backup into the store that its metadata servers share.

    no leader, no tables ─▶ mark ─▶ (files and manifests) ─▶ all keys, with places of the regions ─▶ remove the mark

While the mark is there, no metadata server starts. The same restore can be run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from tsdb.backup._errors import RestoreRefused
from tsdb.catalog import find_tables, place_tables
from tsdb.kv import OPERATIONS_MAX, Absent, CoordinationStore, DeleteKey, KvStore, PutKey

RESTORE_MARK = "__restore"
"""In the metadata until everything is restored."""


class ClusterMetadata:
    """The metadata of a cluster that is not running, as the target of a restore."""

    def __init__(self, store: CoordinationStore, nodes: Sequence[int], *, leader_key: str) -> None:
        """`nodes` are the datanodes that will have the regions; `leader_key` is there while a server leads."""
        self._store = store
        self._nodes = nodes
        self._leader_key = leader_key

    def read_mark(self) -> dict[str, Any] | None:
        """Return what an unfinished restore has left."""
        found = self._store.get(RESTORE_MARK)
        return None if found is None else _parse_mark(found)

    def begin(self, mark: dict[str, Any]) -> None:
        """Mark the metadata; RestoreRefused if it belongs to a running cluster or has tables."""
        if self._store.find(self._leader_key) is not None:
            raise RestoreRefused(
                "a metadata server leads this cluster", hint="stop metasrv and the datanodes, or use another etcd"
            )
        content = orjson.dumps(mark)
        if self._store.get(RESTORE_MARK) is not None:
            return  # The same restore: another one was refused before.
        key = find_tables(self._store)
        if key is not None:
            raise RestoreRefused("the cluster has tables or users", found=key, hint="use an empty metadata store")
        if not self._store.transact([Absent(RESTORE_MARK)], [PutKey(RESTORE_MARK, content)]):
            raise RestoreRefused("another restore into this cluster has just started")

    def publish(self, metadata: KvStore) -> None:
        """Write all keys, and remove the mark with the last of them."""
        puts = [PutKey(key, value) for key, value in metadata.scan("")]
        puts += place_tables(metadata, self._nodes)
        for start in range(0, len(puts), OPERATIONS_MAX):
            self._store.transact([], puts[start : start + OPERATIONS_MAX])
        self._store.transact([], [DeleteKey(RESTORE_MARK)])


def _parse_mark(content: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}
