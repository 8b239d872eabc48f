"""What a frontend shows of its cluster while no metadata server answers."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from tsdb.clock import SystemClock
from tsdb.components._cluster_view import MetaCluster
from tsdb.database._cluster_admin import balance_regions, retry_procedures
from tsdb.errors import Unsupported
from tsdb.kv import MemoryKv
from tsdb.meta.errors import MetasrvUnreachable
from tsdb.model import Peer, RegionId, region_id
from tsdb.query.information_schema import PeerRow, ProcedureRow


class SilentMeta:
    """Metadata servers of which none answers."""

    def __init__(self) -> None:
        self.asked = 0

    def nodes(self) -> NoReturn:
        self.asked += 1
        raise MetasrvUnreachable("no metadata server answered")


class Routes:
    """Where regions are, as the copy of the metadata says."""

    def peer_of(self, region_id: RegionId) -> Peer:
        return Peer(1, "127.0.0.1:3101")

    def is_moving(self, region_id: RegionId) -> bool:
        return False


class AnsweringMeta:
    """A leader with one procedure."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def procedures(self) -> list[dict[str, Any]]:
        about = {"id": "7a", "kind": "alter_table", "subject": "public.t", "state": "Poisoned", "error": "it refuses"}
        return [{**about, "asked_ms": 5, "began_ms": 6, "ended_ms": 0, "attempts": 12, "since_ms": 7}]

    def command(self, kind: str) -> dict[str, Any]:
        self.commands.append(kind)
        return {"procedures": ["1", "2"], "left": 3}


def test_procedures_are_shown_with_what_keeps_them_from_ending() -> None:
    meta: Any = AnsweringMeta()
    routes: Any = Routes()
    view = MetaCluster(meta, MemoryKv(), routes, SystemClock())
    (row,) = view.procedures()
    assert row == ProcedureRow("7a", "alter_table", "Poisoned", 6, None, "public.t", 12, 7, "it refuses")
    assert (balance_regions(view), retry_procedures(view)) == (2, 3)
    assert meta.commands == ["balance_regions", "retry_procedures"]
    for ask in (balance_regions, retry_procedures):
        with pytest.raises(Unsupported, match="not part of a cluster"):
            ask(None)


def test_the_nodes_of_all_regions_are_asked_for_once() -> None:
    meta: Any = SilentMeta()
    routes: Any = Routes()
    view = MetaCluster(meta, MemoryKv(), routes, SystemClock())
    assert view.peers_of([region_id(1024, at) for at in range(50)]) == [PeerRow(1, "127.0.0.1:3101")] * 50
    assert meta.asked == 1
    assert view.peers_of([]) == []
    assert meta.asked == 1
