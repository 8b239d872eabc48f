"""A client whose request may succeed later is told so, and what else helps: the hint of such an error says it first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUSY = frozenset({"Busy", "QueriesBusy", "PromqlBusy", "NotReady", "ServerStopping", "RegionBusy"})
STARTS = ("try again later", "try again when ", "try again in a moment", "try again with ")


def _hints() -> Iterator[tuple[str, str | None]]:
    """Yield the place and the constant beginning of the hint of each error that says that the server is busy."""
    for path in sorted((ROOT / "tsdb").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            is_busy = isinstance(node.func, ast.Name) and node.func.id in BUSY - {"RegionBusy"}
            # RegionBusy has its hint from its own class.
            is_region_busy = path.name == "errors.py" and path.parent.name == "engine" and _is_region_busy(node)
            if is_busy or is_region_busy:
                hint = next((each.value for each in node.keywords if each.arg == "hint"), None)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", _text(hint)


def _is_region_busy(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and "global_write_buffer_size" in ast.unparse(node)


def _text(hint: ast.expr | None) -> str | None:
    if isinstance(hint, ast.JoinedStr):
        hint = hint.values[0]
    return hint.value if isinstance(hint, ast.Constant) and isinstance(hint.value, str) else None


def test_busy_errors_say_when_to_try_again() -> None:
    found = dict(_hints())
    assert len(found) >= 10, "the search finds nothing"
    silent = {place: hint for place, hint in found.items() if hint is None or not hint.startswith(STARTS)}
    assert not silent
