import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import tsdb
from tsdb.telemetry import REGISTRY, app_info, counter, families, gauge, histogram, render

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
_ROW = re.compile(r"\| `(?P<name>[a-z0-9_]+)` \| (?P<type>\w+) \|(?P<labels>[^|]*)\| (?P<meaning>[^|]+) \|")


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = _ROW.finditer(DOCUMENT.read_text())
    return {row["name"]: (row["type"], tuple(re.findall(r"`(\w+)`", row["labels"]))) for row in rows}


def import_everything() -> None:
    """A family exists once its module is imported, so import all of them."""
    for module in pkgutil.walk_packages(tsdb.__path__, "tsdb."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def test_every_family_is_documented_as_it_is_declared() -> None:
    import_everything()
    declared = {family.name: (family.type, family.labels) for family in families()}
    ours = {name: row for name, row in documented().items() if name.startswith("tsdb_")}
    assert ours == declared


@pytest.mark.skipif(sys.platform != "linux", reason="the process collector reads /proc")
def test_every_family_of_the_process_and_of_python_is_documented() -> None:
    collected = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for metric in REGISTRY.collect()
        if not metric.name.startswith("tsdb_")
    }
    assert collected == {name for name in documented() if not name.startswith("tsdb_")}


def test_the_application_is_named_with_its_version() -> None:
    app_info("1.2.3-dev+abc", "tsdb-standalone")
    line = 'tsdb_app_version{app="tsdb-standalone",short_version="1.2.3",version="1.2.3-dev+abc"} 1.0'
    assert line in render().decode().splitlines()
    app_info("1.2.3", "tsdb-frontend")
    assert render().count(b"tsdb_app_version{") == 1


def test_the_text_has_help_and_type_and_no_creation_times() -> None:
    text = render().decode()
    assert "# HELP tsdb_app_version " in text
    assert "# TYPE tsdb_app_version gauge" in text
    assert "process_resident_memory_bytes" in text or sys.platform != "linux"
    assert "python_gc_collections_total" in text
    assert "_created" not in text


@pytest.mark.parametrize(
    ("make", "name", "help", "problem"),
    [
        (counter, "tsdb_things", "Things.", "ends in _total"),
        (counter, "things_total", "Things.", "must be named tsdb_"),
        (gauge, "tsdb_Things", "Things.", "must be named tsdb_"),
        (gauge, "tsdb_things", " ", "needs a help text"),
        (histogram, "tsdb_things-seconds", "Things.", "must be named tsdb_"),
        (gauge, "tsdb_app_version", "Again.", "is declared twice"),
    ],
)
def test_a_family_needs_a_proper_name_and_a_help_text(make, name, help, problem) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=problem):
        make(name, help)
