"""From a merged tree to a validated model, with problems reported in terms of the configuration.

Pydantic finds the problems; this module says them: the dotted key, the value, what was expected, and the option, file
or variable it came from. When some values are wrong the rest is validated without them, so that problems which only
show between keys can be reported together.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tsdb.config._components import CONFIG_MODELS, ComponentConfig
from tsdb.config._fields import show_value
from tsdb.config._layers import Origin, Tree, leaves
from tsdb.config._schema import Path, dotted, environment_variable, generic, keys_of
from tsdb.config._storage import StorageType
from tsdb.config.options import Component, options_of

_STORAGE_TAGS = {member.value for member in StorageType}
_SECRET_NAME = re.compile(r"key|secret|token|passw|credential|provider|auth", re.IGNORECASE)

Problems = dict[Path, str]


class Validator:
    """Validates the tree of one component."""

    def __init__(self, component: Component, origins: Mapping[Path, Origin], env_prefix: str) -> None:
        self._component = component
        self._origins = origins
        self._env_prefix = env_prefix

    def validate(self, tree: Tree) -> tuple[ComponentConfig | None, Problems]:
        """Return the model and the problems by path; with problems, the model is of what is left without them."""
        tree = copy.deepcopy(tree)
        problems: Problems = {}
        # Taking out a wrong value can bring a second problem to light (a storage type decides on other keys), hence
        # a few rounds; what is wrong even then is reported as far as it is known.
        for _ in range(4):
            try:
                return CONFIG_MODELS[self._component].model_validate(tree), problems
            except ValidationError as error:
                for detail in error.errors():
                    path = _path(detail["loc"])
                    path, message = self._describe(path, detail)
                    problems.setdefault(path, message)
                    _take_out(tree, path, detail)
        return None, problems

    def _describe(self, path: Path, detail: ErrorDetails) -> tuple[Path, str]:
        value = detail["input"]
        match detail["type"]:
            case "extra_forbidden":
                return path, f"{dotted(path)}: {self._unknown(path, value)}{self._from(path)}"
            case "missing":
                return path, f"{dotted(path)}: is required; {self._how_to_set(path)}"
            case "union_tag_not_found" | "union_tag_invalid":
                if not isinstance(value, dict):
                    return path, f"{dotted(path)}: {show_value(value)} is not a table{self._from(path)}"
                names = ", ".join(member.value for member in StorageType)
                path = (*path, "type")
                return path, (
                    f"{dotted(path)}: {show_value(value.get('type'))} is not a storage type, expected one of {names}"
                    f"{self._from(path)}"
                )
            case "literal_error":
                expected = detail.get("ctx", {}).get("expected", "")
                message = f"{show_value(value)} does not fit {self._component}, expected {expected}"
            case "greater_than_equal":
                message = f"{value} is too small, expected at least {detail.get('ctx', {}).get('ge')}"
            case "model_type" | "dict_type" | "model_attributes_type":
                message = f"{show_value(value)} is not a table"
            case "list_type":
                message = "is an array of tables" + _array_hint(path, value)
            case _:
                message = detail["msg"]
        return path, f"{dotted(path)}: {message}{self._from(path)}"

    def _from(self, path: Path) -> str:
        """Name the origin of a value, or of the first value inside a table."""
        for known, origin in self._origins.items():
            if known[: len(path)] == path:
                return f" (from {origin})"
        return ""

    def _how_to_set(self, path: Path) -> str:
        ways = [option.name for option in options_of(self._component) if dotted(path) in option.keys[self._component]]
        ways += [f"the key {dotted(path)}", environment_variable(self._env_prefix, path)]
        return f"set it by {', '.join(ways[:-1])} or {ways[-1]}"

    def _unknown(self, path: Path, value: object) -> str:
        """Say that a key is unknown, where it is known, or which known key is nearest."""
        shown = (
            "" if isinstance(value, dict | list) or _SECRET_NAME.search(str(path[-1])) else f" = {show_value(value)}"
        )
        plain = generic(path)
        here = keys_of(self._component)
        if plain in here:
            return f"is not a key of this storage type, only of {', '.join(here[plain].variants)}"
        others = [
            str(other)
            for other in Component
            if any(known[: len(plain)] == plain for known in keys_of(other)) and other is not self._component
        ]
        if others:
            return f"is not a key of {self._component}, only of {' and '.join(others)}"
        nearest = _nearest(plain, list(here))
        return f"unknown key{shown}" + (f", did you mean {dotted(nearest)}?" if nearest else "")


def _nearest(path: tuple[str, ...], known: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Find the known key, or table, that a misspelt one most likely meant."""
    candidates = {key[:depth] for key in known for depth in range(1, len(key) + 1)}
    siblings = {dotted(key): key for key in candidates if key[:-1] == path[:-1]}
    everywhere = {dotted(key): key for key in sorted(candidates)}
    for names in (siblings, everywhere):
        if close := difflib.get_close_matches(dotted(path), names, n=1, cutoff=0.7):
            return names[close[0]]
    return next((key for key in sorted(candidates) if key[-1] == path[-1]), None)


def _path(location: tuple[str | int, ...]) -> Path:
    """Return the path of a problem without the storage types that pydantic puts in between."""
    path: list[str | int] = []
    for part in location:
        is_tag = part in _STORAGE_TAGS and (path == ["storage"] or (path[1:2] == ["providers"] and len(path) == 3))
        if not is_tag:
            path.append(part)
    return tuple(path)


def _take_out(tree: Tree, path: Path, detail: ErrorDetails) -> None:
    """Remove a wrong value, or put one that fits where a required one is missing."""
    *tables, last = path
    node: Any = tree
    for part in tables:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return
    if detail["type"] in ("union_tag_not_found", "union_tag_invalid"):
        # Without its type nothing in the table can be judged.
        node.clear()
        node["data_home"] = "placeholder"
    elif detail["type"] == "missing":
        node[last] = 0 if last == "node_id" else "placeholder"
    elif isinstance(node, dict):
        node.pop(last, None)
    elif isinstance(node, list) and isinstance(last, int) and last < len(node):
        node[last] = {}


def _array_hint(path: Path, value: object) -> str:
    if not isinstance(value, dict):
        return f", not {show_value(value)}"
    table = next((f"{dotted((*path, *leaf[:-1]))}" for leaf, _ in leaves(value) if len(leaf) > 1), "")
    return f": write [[{dotted(path)}]]" + (f" above [{table}]" if table else "")
