"""Type, unit and help of metrics: what their senders said, and otherwise what their names tell.

A family that was described (a histogram `latency`) stands for the tables of its samples (`latency_bucket`,
`latency_sum`, `latency_count`); the description of one of these by name is that of the family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tsdb.model import FAMILY_SUFFIXES, MetricDescription

Metadata: TypeAlias = dict[str, list[dict[str, str]]]
Known: TypeAlias = Mapping[str, Sequence[MetricDescription]]

_TYPES = frozenset({"counter", "gauge"})
"""The types whose samples mean something without the other samples of a family."""
_UNITS = ("seconds", "bytes", "ratio", "celsius", "meters", "volts", "amperes", "joules")


def describe_metrics(
    known: Known, tables: Iterable[str], *, metric: str | None, limit: int | None, limit_per_metric: int | None
) -> Metadata:
    """Describe the metrics of a database, or one of them."""
    if metric:
        found = {metric: _describe_one(metric, known)} if metric in known or metric in set(tables) else {}
    else:
        found = _describe_all(known, tables)
    chosen = sorted(found)[:limit]
    return {name: [_shown(each) for each in found[name][:limit_per_metric]] for name in chosen}


def kind_of(name: str, known: Known) -> str:
    """Return the type of a metric whose samples stand alone, `untyped` if no sender declared it.

    The samples of a histogram or summary come as metrics of their own, without the family that gives them a meaning.
    """
    described = known.get(name) or []
    # OpenMetrics describes the counter `hits_total` as `hits`.
    family = [each for each in known.get(name.removesuffix("_total"), ()) if each.kind == "counter"]
    kind = next((each.kind for each in (*described, *family)), "")
    return kind if kind in _TYPES else "untyped"


def _describe_all(known: Known, tables: Iterable[str]) -> dict[str, Sequence[MetricDescription]]:
    members = {
        name + suffix
        for name, variants in known.items()
        for variant in variants
        for suffix in FAMILY_SUFFIXES.get(variant.kind, ())
    }
    told = {name: _describe_one(name, known) for name in tables if name not in members}
    return {**told, **known}


def _describe_one(name: str, known: Known) -> Sequence[MetricDescription]:
    if name in known:
        return known[name]
    kind, unit = _kind_of(name), _unit_of(name)
    for family_kind, suffixes in FAMILY_SUFFIXES.items():
        for suffix in suffixes:
            family = known.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
            if family and family[0].kind == family_kind:
                return [MetricDescription(kind, family[0].unit or unit, family[0].help)]
    return [MetricDescription(kind, unit, "")]


def _kind_of(name: str) -> str:
    if name.endswith(("_total", "_count", "_sum")):
        return "counter"
    return "histogram" if name.endswith("_bucket") else "gauge"


def _unit_of(name: str) -> str:
    base = name.removesuffix("_total").removesuffix("_bucket").removesuffix("_sum")
    unit = base.rpartition("_")[2]
    return unit if unit in _UNITS else ""


def _shown(description: MetricDescription) -> dict[str, str]:
    return {"type": description.kind, "unit": description.unit, "help": description.help}
