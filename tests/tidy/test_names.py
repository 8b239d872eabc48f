"""One name, one meaning: no two modules define a public class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_public_class_name_occurs_in_two_modules() -> None:
    modules = defaultdict(list)
    for path in sorted((ROOT / "tsdb").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(ROOT)))
    offences = [f"{name}: {', '.join(paths)}" for name, paths in sorted(modules.items()) if len(paths) > 1]
    assert not offences, "\n".join(offences)
