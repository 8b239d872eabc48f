"""The layers of the packages: a package imports only packages with a lower number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from tsdb.engine.log import LogStore

ROOT = Path(__file__).parents[2]

LAYERS = {
    "errors": 0,
    "error_json": 1,
    "nearest": 0,
    "units": 0,
    "clock": 0,
    "ids": 0,
    "memory": 0,
    "waits": 0,
    "weighted_cache": 0,
    "quick_imports": 0,
    "_kernels": 0,
    "arrays": 1,
    "processes": 1,
    "model": 1,
    "config": 1,
    "telemetry": 1,
    "store": 2,
    "kv": 2,
    "engine": 3,
    "metric": 4,
    "catalog": 4,
    "remote": 4,
    "ingest": 4,
    "sql": 4,
    "promql": 4,
    "backup": 5,
    "query": 5,
    "database": 6,
    "auth": 3,
    "cluster": 7,
    "meta": 7,
    "servers": 8,
    "components": 9,
    "embedded": 10,
    "cli": 10,
}


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and module of every import of the product in a file, those inside functions included."""
    for node in _import_nodes(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            if node.level:
                yield node.lineno, "(relative)"
                continue
            names = [node.module or ""]
            if node.module == "tsdb":
                names = [f"tsdb.{alias.name}" for alias in node.names]
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "tsdb")


@cache
def _import_nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in _nodes(path) if isinstance(node, ast.Import | ast.ImportFrom))


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def _sources() -> list[Path]:
    return sorted((ROOT / "tsdb").rglob("*.py"))


def test_packages_import_only_lower_layers() -> None:
    offences = []
    for path in _sources():
        here = path.relative_to(ROOT / "tsdb").with_suffix("").parts[0]
        if here == "__init__":
            continue
        for line, module in _imports(path):
            place = f"{path.relative_to(ROOT)}:{line}"
            if module == "(relative)":
                offences.append(f"{place} imports relatively; write the full name")
                continue
            there = module.split(".")[1] if "." in module else ""
            if there in ("", "__version__"):
                continue
            if there != here and LAYERS[there] >= LAYERS[here]:
                offences.append(f"{place} ({here}, layer {LAYERS[here]}) imports {module} (layer {LAYERS[there]})")
    assert not offences, "\n".join(offences)


ENGINE_LAYERS = {
    "errors": 0,
    "tuning": 0,
    "metrics": 0,
    "parallel": 0,
    "ranges": 1,
    "index": 2,
    "rows": 3,
    "log": 2,
    "wal": 3,
    "manifest": 3,
    "entry": 4,
    "listing": 4,
    "sst": 4,
    "scan": 5,
    "compaction": 6,
    "reading": 6,
    "region": 7,
    "regions": 8,
    "lending": 8,
    "gauges": 8,
    "memory": 8,
    "engine": 9,
    "rolling": 10,
    "__init__": 11,
}


def test_parts_of_the_engine_import_only_lower_ones() -> None:
    offences = []
    for path in sorted((ROOT / "tsdb" / "engine").rglob("*.py")):
        here = path.relative_to(ROOT / "tsdb" / "engine").with_suffix("").parts[0]
        for line, module in _imports(path):
            there = [*module.split("."), "__init__"][2]
            if module.startswith("tsdb.engine") and there != here and ENGINE_LAYERS[there] >= ENGINE_LAYERS[here]:
                offences.append(f"{path.relative_to(ROOT)}:{line} ({here}) imports {module}")
    assert not offences, "\n".join(offences)


def test_the_engine_knows_its_log_by_the_protocol_only() -> None:
    """Any `LogStore` will do: only the top of the package names the one on a local disk, for those who open it."""
    root = ROOT / "tsdb" / "engine"
    offences = []
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in ("wal", "__init__.py"):
            continue
        offences += [
            f"{path.relative_to(ROOT)}:{line} imports {module}"
            for line, module in _imports(path)
            if module.startswith("tsdb.engine.wal")
        ]
        # A protocol that is narrowed to one of its implementations is bypassed.
        offences += [
            f"{path.relative_to(ROOT)}:{node.lineno} uses {ast.unparse(node)}"
            for node in _nodes(path)
            if isinstance(node, ast.Attribute)
            and ast.unparse(node.value).endswith("wal")
            and (node.attr.startswith("_") or not hasattr(LogStore, node.attr))
        ]
    assert not offences, "\n".join(offences)


def test_private_modules_stay_inside_their_package() -> None:
    offences = []
    for path in _sources():
        here = path.relative_to(ROOT / "tsdb").parts[0]
        for line, module in _imports(path):
            parts = module.split(".")[1:]
            if len(parts) > 1 and parts[0] != here and any(part.startswith("_") for part in parts[1:]):
                offences.append(f"{path.relative_to(ROOT)}:{line} imports the private module {module}")
    assert not offences, "\n".join(offences)


ENGINE_INTERFACE = frozenset(
    f"tsdb.{name}"
    for name in ("engine", "engine.entry", "engine.errors", "engine.lending", "engine.listing", "engine.reading")
)
"""`entry` is for writers: how series are laid out in a write; `lending` for processes of the same machine."""
INSIDE_THE_ENGINE = frozenset(
    {"Snapshot", "Source", "DataFile", "FileReader", "Region", "Version", "SeriesBlock", "LocalReader"}
)


def test_other_packages_know_regions_by_their_interface_only() -> None:
    """A region on another node has no snapshot and no files to hand over."""
    offences = []
    for path in _sources():
        if path.relative_to(ROOT / "tsdb").parts[0] == "engine":
            continue
        for line, module in _imports(path):
            if module.startswith("tsdb.engine") and module not in ENGINE_INTERFACE:
                offences.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
        for node in _import_nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module in ("tsdb.engine", "tsdb.engine.reading"):
                public = import_module(node.module).__all__
                names = [alias.name for alias in node.names if alias.name not in public]
                offences += [f"{path.relative_to(ROOT)}:{node.lineno} imports {name}" for name in names]
    assert not offences, "\n".join(offences)


def test_the_interface_of_regions_names_nothing_inside_the_engine() -> None:
    for module in ("tsdb.engine", "tsdb.engine.reading", "tsdb.engine.regions"):
        path = ROOT / Path(*module.split(".")).with_suffix(".py")
        tree = ast.parse((path if path.exists() else path.with_suffix("") / "__init__.py").read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not names & INSIDE_THE_ENGINE, module


SCAN_LAYERS = ("filters", "snapshot", "plan", "cells", "readers", "queries")


def test_packages_of_scans_import_only_those_before_them() -> None:
    offences = []
    root = ROOT / "tsdb" / "engine" / "scan"
    for path in sorted(root.rglob("*.py")):
        here = path.relative_to(root).parts[0]
        if here == "__init__.py":
            continue
        for line, module in _imports(path):
            parts = module.split(".")
            if parts[:3] != ["tsdb", "engine", "scan"]:
                continue
            place = f"{path.relative_to(ROOT)}:{line}"
            if len(parts) < 4:
                offences.append(f"{place} imports the whole package")
            elif SCAN_LAYERS.index(parts[3]) > SCAN_LAYERS.index(here):
                offences.append(f"{place} imports {module}")
    assert not offences, "\n".join(offences)


def _part_of(package: str, module: str) -> str:
    """Return the sub-package of a package, or the module at its top, that a module is in."""
    parts = module.removeprefix(package).split(".")[1:]
    return parts[0] if parts else "__init__"


@pytest.mark.parametrize("package", ["tsdb.database", "tsdb.servers.http"])
def test_parts_of_a_package_depend_on_each_other_in_one_direction(package: str) -> None:
    """`static_order` raises an error that names the parts of a cycle."""
    graph: dict[str, set[str]] = {}
    for path in sorted(ROOT.joinpath(*package.split(".")).rglob("*.py")):
        here = _part_of(package, ".".join(path.relative_to(ROOT).with_suffix("").parts))
        imported = {_part_of(package, module) for _, module in _imports(path) if f"{module}.".startswith(f"{package}.")}
        graph.setdefault(here, set()).update(imported - {here})
    assert "__init__" in list(TopologicalSorter(graph).static_order())


def test_the_parts_of_http_know_each_other_by_their_public_names() -> None:
    offences = []
    root = ROOT / "tsdb" / "servers" / "http"
    for path in sorted(root.rglob("*.py")):
        here = path.parent.relative_to(root).parts[:1]
        for line, module in _imports(path):
            _, _, inner = module.partition("tsdb.servers.http.")
            there, _, private = inner.partition(".")
            if private and (there,) != here:
                offences.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not offences, "\n".join(offences)


def test_other_packages_import_the_database_by_its_public_names() -> None:
    offences = []
    for path in _sources():
        if path.relative_to(ROOT / "tsdb").parts[0] != "database":
            found = [(line, module) for line, module in _imports(path) if module.startswith("tsdb.database.")]
            offences += [f"{path.relative_to(ROOT)}:{line} imports {module}" for line, module in found]
    assert not offences, "\n".join(offences)


QUERY_LAYERS = {
    "_checkpoint": 0,
    "_datafusion_texts": 1,
    "_write_token": 1,
    "advisory_locks": 1,
    "session": 2,
    "_recent": 3,
    "functions": 3,
    "information_schema": 3,
    "errors": 4,
    "mysql_variables": 4,
    "pg_catalog": 4,
    "lifetime": 5,
    "range": 5,
    "tables": 6,
    "planning": 7,
    "promql": 7,
    "selection": 7,
    "_handed": 8,
    "_seen": 8,
    "series_aggregate": 8,
    "workers": 8,
    "_planner": 9,
    "choose": 9,
    "_fast_paths": 10,
    "_explain": 11,
    "_engine": 12,
}


def test_packages_of_query_import_only_lower_ones_by_their_public_names() -> None:
    offences = []
    for path in sorted((ROOT / "tsdb" / "query").rglob("*.py")):
        here = path.relative_to(ROOT / "tsdb" / "query").with_suffix("").parts[0]
        for line, module in _imports(path) if here != "__init__" else ():
            _, layer, there, *inner = (*module.split("."), "", "")
            if layer != "query" or there == here:
                continue
            if not there or QUERY_LAYERS[there] >= QUERY_LAYERS[here] or inner[0].startswith("_"):
                offences.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert not offences, "\n".join(offences)


def test_every_package_has_a_layer() -> None:
    found = {path.relative_to(ROOT / "tsdb").with_suffix("").parts[0] for path in _sources()} - {"__init__"}
    assert found <= set(LAYERS)


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_opens_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{path} has no docstring"
