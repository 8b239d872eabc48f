"""Nothing uses the generator of the module `random`, which belongs to the program that embeds the database."""

from __future__ import annotations

import ast
from pathlib import Path

import tsdb

ALLOWED = {"Random", "SystemRandom"}


def uses_of_shared_generator(source: str) -> list[str]:
    """The functions of the module `random` that a source names."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
            found.append(node.attr)
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            found += [alias.name for alias in node.names]
    return [name for name in found if name not in ALLOWED]


def test_no_source_uses_the_generator_of_the_module() -> None:
    package = Path(tsdb.__file__).parent
    found = {
        f"{path.relative_to(package)}: random.{name}"
        for path in package.rglob("*.py")
        for name in uses_of_shared_generator(path.read_text(encoding="utf-8"))
        # Those whose parameter is called `random` draw from the generator they were given.
        if "random: Random" not in path.read_text(encoding="utf-8")
    }
    assert not found


def test_every_way_to_use_it_is_found() -> None:
    source = "import random\nfrom random import choice, Random\nrandom.uniform(0, 1)\nrandom.Random(1)"
    assert uses_of_shared_generator(source) == ["choice", "uniform"]
