"""Which datanodes get the regions of a new table.

    lease_based    any that is alive, at random
    load_based     at random too, the fewer regions a node has the more probably

Regions of one table are on distinct nodes as far as there are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from random import Random


class NodeSelector(StrEnum):
    """How nodes are chosen."""

    LEASE_BASED = "lease_based"
    LOAD_BASED = "load_based"


def select_nodes(selector: NodeSelector, loads: Mapping[int, int], count: int, random: Random) -> list[int]:
    """Choose `count` nodes of those that are alive, given with how many regions each has."""
    order = _ORDERS[selector]
    counts = dict(loads)
    chosen: list[int] = []
    while len(chosen) < count:
        for node_id in order(counts, random)[: count - len(chosen)]:
            chosen.append(node_id)
            counts[node_id] += 1
    return chosen


def _any_order(loads: Mapping[int, int], random: Random) -> list[int]:
    order = sorted(loads)
    random.shuffle(order)
    return order


def _order_by_load(loads: Mapping[int, int], random: Random) -> list[int]:
    """Draw all nodes, one after the other, each with a weight that shrinks with its regions."""
    left, order = dict(loads), []
    while left:
        most, least = max(left.values()), min(left.values())
        weights = [most - each + (most - least or 1) for each in left.values()]
        drawn = random.choices(list(left), weights)[0]
        order.append(drawn)
        del left[drawn]
    return order


_ORDERS: dict[NodeSelector, Callable[[Mapping[int, int], Random], list[int]]] = {
    NodeSelector.LEASE_BASED: _any_order,
    NodeSelector.LOAD_BASED: _order_by_load,
}
