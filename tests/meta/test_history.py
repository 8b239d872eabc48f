"""The leader has changes of the metadata noted by datanodes that keep their shared logs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.worlds import draft
from tests.meta.clusters import MetaCluster, Reached, datanode, running_cluster, wait_until
from tests.meta.test_service import frontend
from tsdb.catalog import is_of_a_server
from tsdb.meta._history import read_order
from tsdb.meta.errors import ChangeNotNoted
from tsdb.model import DatabaseInfo, Peer
from tsdb.remote import NodeUnavailable

Pairs = dict[str, bytes]


class Notes:
    """What datanodes were asked to note; they may refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[tuple[int, Mapping[str, Any]]] = []
        self.refusing: set[int] = set()
        self._lock = threading.Lock()
        monkeypatch.setattr(Reached, "backup", self._take, raising=False)

    def _take(self, peer: Peer, step: str, request: Mapping[str, Any], **_: object) -> dict[str, Any]:
        assert step == "note"
        if peer.node_id in self.refusing:
            raise NodeUnavailable("it does not answer", address=peer.address)
        with self._lock:
            self.told.append((peer.node_id, request))
        return {}

    def replay(self) -> Pairs:
        """What the notes say that the metadata is; without gaps from the last that has everything."""
        found: Pairs = {}
        at: tuple[int, int] | None = None
        for _, note in self.told:
            term, number = note["order"]
            if note["is_base"]:
                found = dict(note["metadata"])
            else:
                assert at == (term, number - 1)
                for key, value in note["metadata"].items():
                    if value is None:
                        found.pop(key, None)
                    else:
                        found[key] = value
            at = (term, number)
        return found


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    return Notes(monkeypatch)


def keeper(node_id: int) -> Any:
    return replace(datanode(node_id), keeps_log=True)


def metadata(cluster: MetaCluster) -> Pairs:
    return {key: value for key, value in cluster.store.scan("__") if is_of_a_server(key)}


def test_notes_tell_the_metadata_change_by_change(tmp_path: Path, notes: Notes) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        catalog.create_database(DatabaseInfo("before"))
        # Nobody keeps a log: nothing is noted, and no key is written for it.
        assert notes.told == []
        assert read_order(cluster.store) is None
        client.register(keeper(2))
        table = catalog.create_table(draft("t", rules=("host < 'm'", "host >= 'm'")))
        assert notes.told[0][1]["is_base"]
        assert {node for node, _ in notes.told} == {2}
        catalog.drop_tables([table])
        assert notes.replay() == metadata(cluster)
        order = tuple(notes.told[-1][1]["order"])
        assert read_order(cluster.store) == order
        mirror.close()


def test_a_change_that_nobody_notes_is_not_acknowledged_and_noted_later(tmp_path: Path, notes: Notes) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        client.register(keeper(1))
        client.register(keeper(2))
        mirror, catalog = frontend(client)
        catalog.create_database(DatabaseInfo("one"))
        notes.refusing = {1}
        catalog.create_database(DatabaseInfo("two"))
        assert notes.told[-1][0] == 2
        notes.refusing = {1, 2}
        with pytest.raises(ChangeNotNoted):
            catalog.create_database(DatabaseInfo("three"))
        assert notes.replay() != metadata(cluster)
        notes.refusing = set()
        # Without another change: the leader looks after it.
        wait_until(lambda: notes.replay() == metadata(cluster), seconds=60)
        assert notes.told[-1][1]["is_base"]
        catalog.create_database(DatabaseInfo("four"))
        assert notes.replay() == metadata(cluster)
        mirror.close()


def test_the_next_leader_begins_with_everything(tmp_path: Path, notes: Notes) -> None:
    with running_cluster(tmp_path, servers=2) as cluster:
        client = cluster.client()
        client.register(keeper(1))
        mirror, catalog = frontend(client)
        catalog.create_database(DatabaseInfo("one"))
        [first] = {note["order"][0] for _, note in notes.told}
        cluster.remove(cluster.leader())
        cluster.leader()
        client.register(keeper(1))
        catalog.create_database(DatabaseInfo("two"))
        later = [note for _, note in notes.told if note["order"][0] != first]
        assert later[0]["is_base"]
        assert later[0]["order"][0] > first
        assert notes.replay() == metadata(cluster)
        mirror.close()
