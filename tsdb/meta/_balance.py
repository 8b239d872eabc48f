"""Which regions move so that all datanodes have about as many: a decision, without doing anything.

- A region that is under way counts for the node that it goes to, and is not chosen again.
- Only a few are under way at a time: moves are made one after the other, and a failover must not wait for very many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tsdb.model import RegionId

BALANCED_MAX = 8
"""How many migrations may be under way when regions are balanced."""


def plan_balance(
    places: Mapping[RegionId, int], *, under_way: Collection[RegionId], nodes: Collection[int], moves_max: int
) -> list[tuple[RegionId, int, int]]:
    """Return regions, each with the node that it leaves and the one that it goes to.

    `places` are the nodes of all regions, of those under way the nodes that they go to. Regions of other nodes than
    `nodes` stay where they are.
    """
    counts = dict.fromkeys(sorted(nodes), 0)
    movable: dict[int, list[RegionId]] = {node: [] for node in counts}
    for region, node in sorted(places.items()):
        if node in counts:
            counts[node] += 1
            if region not in under_way:
                movable[node].append(region)
    moves: list[tuple[RegionId, int, int]] = []
    while counts and len(moves) < moves_max:
        fewest = min(counts, key=counts.__getitem__)
        rich = [node for node in counts if movable[node] and counts[node] - counts[fewest] > 1]
        if not rich:
            break
        most = max(rich, key=counts.__getitem__)
        moves.append((movable[most].pop(), most, fewest))
        counts[most] -= 1
        counts[fewest] += 1
    return moves
