"""Dashboards as tables of panels, and the JSON that Grafana reads of them.

A panel is a title, a unit and queries; a row is a heading with panels, three beside each other. `$instance` selects
servers by the label that a scraper adds; metrics without it match the choice "All".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 39
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SELECTION = 'instance=~"$instance"'
_RATE = "$__rate_interval"


@dataclass(frozen=True)
class Query:
    """An expression and the text of its legend."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A graph, or with `kind="stat"` a number."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    meaning: str = ""
    kind: str = "timeseries"


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """One file."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]


def select(metric: str, **labels: str) -> str:
    """A selector of the chosen servers."""
    matchers = [_SELECTION, *(f'{name}="{value}"' for name, value in labels.items())]
    return f"{metric}{{{', '.join(matchers)}}}"


def rate(metric: str, *by: str, **labels: str) -> str:
    """Increase per second of a counter, summed by labels."""
    return f"sum{_by(by)}(rate({select(metric, **labels)}[{_RATE}]))"


def total(metric: str, *by: str, **labels: str) -> str:
    """The sum of a gauge over servers, by labels."""
    return f"sum{_by(by)}({select(metric, **labels)})"


def largest(metric: str, *by: str) -> str:
    """The largest value of a gauge, by labels."""
    return f"max{_by(by)}({select(metric)})"


def quantile(part: float, metric: str, *by: str) -> str:
    """A quantile of a histogram, by labels."""
    return f"histogram_quantile({part}, {rate(f'{metric}_bucket', 'le', *by)})"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""


def graph(title: str, unit: str, *queries: tuple[str, str], meaning: str = "") -> Panel:
    """A panel with lines: pairs of an expression and a legend."""
    return Panel(title, unit, tuple(Query(*each) for each in queries), meaning)


def stat(title: str, unit: str, expression: str, legend: str = "", meaning: str = "") -> Panel:
    """A panel with one number for each series."""
    return Panel(title, unit, (Query(expression, legend),), meaning, kind="stat")


def latency(title: str, metric: str, *by: str) -> Panel:
    """A panel with the median and the 99th percentile of a histogram."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by)
    return graph(
        title,
        "s",
        (quantile(0.5, metric, *by), f"p50 {legend}".strip()),
        (quantile(0.99, metric, *by), f"p99 {legend}".strip()),
    )


def render(dashboard: Dashboard) -> dict[str, Any]:
    """The model that Grafana reads."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["tsdb"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [{"type": "dashboards", "title": "tsdb", "tags": ["tsdb"], "asDropdown": False, "keepTime": True}],
        "templating": {"list": [_data_source_variable(), _instance_variable()]},
        "panels": list(_panels(dashboard)),
    }


def _data_source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _instance_variable() -> dict[str, Any]:
    query = "label_values(tsdb_app_version, instance)"
    return {
        "name": "instance",
        "label": "Server",
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": {"query": query, "refId": "instance"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in dashboard.rows:
        number += 1
        yield {
            "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS * _WIDTH, "h": 1},
        }  # fmt: skip
        top += 1
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, _COLUMNS)
            place = {"x": column * _WIDTH, "y": top + line * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield {"id": number, "gridPos": place, **_panel(panel)}
        top += _HEIGHT * -(-len(row.panels) // _COLUMNS)


def _panel(panel: Panel) -> dict[str, Any]:
    options: dict[str, Any] = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "none", "textMode": "auto"}
    return {
        "type": panel.kind,
        "title": panel.title,
        **({"description": panel.meaning} if panel.meaning else {}),
        "datasource": _DATA_SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _DATA_SOURCE,
                "expr": re.sub(r"  +", " ", query.expression),
                "legendFormat": query.legend or "__auto",
                "range": True,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
