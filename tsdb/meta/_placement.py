"""Placement of the regions of new tables on live datanodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tsdb.catalog import delete_places, put_places
from tsdb.kv import Operation
from tsdb.meta._nodes import NodeRegistry
from tsdb.meta._selectors import NodeSelector, select_nodes
from tsdb.meta.errors import NoLiveDatanode
from tsdb.model import RegionPlace, TableInfo

WAIT_SECONDS = 4.0
"""How long a new leader waits for a first heartbeat before it refuses a table."""


class NodePlacement:
    """Chooses datanodes, as the `Placement` of a catalog."""

    def __init__(
        self,
        nodes: NodeRegistry,
        selector: NodeSelector,
        region_counts: Callable[[], Mapping[int, int]],
        random: Random,
        *,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._nodes = nodes
        self._selector = selector
        self._region_counts = region_counts
        self._random = random
        self._wait_seconds = wait_seconds

    def place(self, table: TableInfo) -> list[Operation]:
        live = self._nodes.wait_live_datanodes(self._wait_seconds)
        if not live:
            raise NoLiveDatanode(
                "there is no live datanode for the regions of the table",
                table=table.full_name,
                hint="start a datanode, or wait until one is registered",
            )
        counts = self._region_counts()
        loads = {node_id: counts.get(node_id, 0) for node_id in live}
        chosen = select_nodes(self._selector, loads, len(table.region_numbers), self._random)
        places = {number: RegionPlace(node_id) for number, node_id in zip(table.region_numbers, chosen, strict=True)}
        return [put_places(table.id, places)]

    def forget(self, table_id: int) -> list[Operation]:
        return [delete_places(table_id)]
