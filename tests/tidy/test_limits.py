"""docs/limits.md says what the code does: every bound in it is the value of the constant or the key that it names."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from tsdb.config import Component, load_config
from tsdb.units import Duration, Size

DOCUMENT = Path(__file__).parents[2] / "docs" / "limits.md"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
BY_MEMORY = "of the memory limit, at most"


def read_rows() -> list[tuple[str, str, str]]:
    """What is bounded, how, and by which key or constant."""
    rows = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and "`" in cells[3]:
            rows.append((cells[0], cells[1], cells[3]))
    return rows


def read_bound(text: str) -> int:
    """The last number of a bound, in bytes, seconds or things."""
    number, unit = re.findall(r"([\d,]+)(?: (\w+))?$", text)[0]
    return int(number.replace(",", "")) * UNITS.get(unit, 1)


def find_value(name: str) -> int:
    if name.startswith("key "):
        config = load_config(Component.STANDALONE, environment={}).config
        found = reduce(getattr, name.removeprefix("key ").strip("`").split("."), config)
    else:
        module, _, constant = name.strip("`").rpartition(".")
        found = getattr(import_module(module), constant)
    return int(found.seconds) if isinstance(found, Duration) else int(found)  # type: ignore[call-overload]


@pytest.mark.parametrize(("what", "bound", "name"), read_rows())
def test_a_documented_bound_is_the_one_in_force(what: str, bound: str, name: str) -> None:
    if BY_MEMORY in bound or bound == "twice as much":
        # The largest value by memory; which one a machine has, its configuration tells.
        key = name.removeprefix("key ").strip("`").rpartition(".")[2]
        reference = (DOCUMENT.parent / "configuration.md").read_text(encoding="utf-8")
        (stated,) = set(re.findall(rf"^\| `{key}` \|.*by memory, at most `\"(\w+)\"`", reference, flags=re.MULTILINE))
        most = "2 GiB" if bound == "twice as much" else bound
        assert read_bound(most) == int(Size.parse(stated))
        return
    assert read_bound(bound.removesuffix(" characters").removesuffix(" s")) == find_value(name), what


def test_the_document_has_bounds() -> None:
    assert len(read_rows()) > 40
