"""The layers a configuration is made of, and where each value came from.

From the strongest to the weakest: options, file, environment, defaults. A layer is a tree as tomllib makes it;
`merge` lays the trees over each other key by key and remembers the origin of every value. An array of tables in a
stronger layer replaces the one below as a whole: entries of two layers are never mixed.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from tsdb.config._components import CONFIG_MODELS
from tsdb.config._fields import Section, Text
from tsdb.config._schema import SHORTHANDS, Path, environment_variable, generic, section_models
from tsdb.config.options import Component, OptionKind, options_of
from tsdb.errors import ConfigError

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    kind: str
    """One of option, file, environment, default."""
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "default":
            return f"default: {self.name}" if self.name else "default"
        return f"{self.kind} {self.name}"


DEFAULT = Origin("default")


@dataclass(slots=True)
class Layer:
    """One source of values: its tree, the origin of each value in it, and what was wrong with it."""

    tree: Tree = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_options(component: Component, given: Mapping[str, str]) -> Layer:
    """Make the layer of the command line from the options given, by parameter name."""
    layer = Layer()
    for option in options_of(component):
        text = given.get(option.parameter)
        if text is None:
            continue
        origin = Origin("option", option.name)
        if option.kind is OptionKind.SECONDS:
            if not re.fullmatch(r"\d+(\.\d+)?", text):
                layer.problems.append(f"{option.name}: {text!r} is not a number of seconds")
                continue
            text = f"{text}s"
        for key in option.keys[component]:
            _put(layer.tree, tuple(key.split(".")), Text(text))
            layer.origins[tuple(key.split("."))] = origin
    return layer


def read_file(component: Component, path: FilePath) -> Layer:
    """Make the layer of a configuration file; a file that cannot be read or parsed ends the loading."""
    try:
        text = path.read_bytes().decode("utf-8")
        tree = tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError([f"{path}: there is no such file (from option --config-file)"]) from None
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror} (from option --config-file)"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8 text, byte {error.start} (from option --config-file)"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path}: is not valid TOML: {error}"]) from None
    layer = Layer(tree=tree)
    _expand_shorthands(component, layer.tree)
    origin = Origin("file", str(path))
    layer.origins = {leaf: origin for leaf, _ in leaves(layer.tree)}
    return layer


def read_environment(component: Component, environment: Mapping[str, str], prefix: str) -> Layer:
    """Make the layer of the environment from the variables that start with the prefix.

    A variable that fits no key is kept as it is: validation finds it and names its origin.
    """
    layer = Layer()
    shorthands = _shorthand_paths(component)
    arrays: dict[Path, set[int]] = {}
    for name in sorted(environment):
        if not name.startswith(f"{prefix}__"):
            continue
        parts = name.removeprefix(f"{prefix}__").lower().split("__")
        path: Path = tuple(int(part) if part.isdecimal() else part for part in parts)
        if generic(path) in shorthands:
            path = (*path, shorthands[generic(path)])
        _put(layer.tree, path, Text(environment[name]))
        layer.origins[path] = Origin("environment", name)
        for position, part in enumerate(path):
            if isinstance(part, int):
                arrays.setdefault(path[:position], set()).add(part)
    for path, positions in arrays.items():
        if positions != set(range(len(positions))):
            variable = environment_variable(prefix, path)
            layer.problems.append(f"{variable}: the entries of an array are numbered from 0 without gaps")
    _dicts_to_lists(layer.tree)
    return layer


def merge(layers: list[Layer]) -> Layer:
    """Lay layers over each other, the strongest first."""
    result = Layer()
    for layer in reversed(layers):
        _overlay(result.tree, layer.tree, (), result.origins)
        result.origins.update(layer.origins)
        result.problems[:0] = layer.problems
    return result


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a tree with its path; tables and arrays of tables are not values."""
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from leaves(value, (*path, name))
    elif isinstance(tree, list) and any(isinstance(item, dict) for item in tree):
        for position, item in enumerate(tree):
            yield from leaves(item, (*path, position))
    elif path:
        yield path, tree


def _overlay(below: Tree, above: Tree, path: Path, origins: dict[Path, Origin]) -> None:
    for name, value in above.items():
        here = (*path, name)
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            _overlay(below[name], value, here, origins)
            continue
        for known in [known for known in origins if known[: len(here)] == here]:
            del origins[known]
        below[name] = _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _put(tree: Tree, path: Path, value: object) -> None:
    """Set a value; positions in arrays are kept as integer keys until `_dicts_to_lists`."""
    *tables, last = path
    node: Any = tree
    for part in tables:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):  # a plain value stands where a table is needed: validation tells
            return
    node[last] = value


def _dicts_to_lists(tree: dict[Any, Any]) -> None:
    for name, value in tree.items():
        if isinstance(value, dict):
            _dicts_to_lists(value)
            if value and all(isinstance(position, int) for position in value):
                tree[name] = [value[position] for position in sorted(value)]


@functools.cache
def _shorthand_paths(component: Component) -> dict[tuple[str, ...], str]:
    """Return the paths of tables that may be written as a plain value, with the key that value sets."""

    def walk(model: type[Section], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        for name, info in model.model_fields.items():
            for member in section_models(info.annotation):
                if member in SHORTHANDS:
                    yield (*prefix, name), SHORTHANDS[member]
                yield from walk(member, (*prefix, name))

    return dict(walk(CONFIG_MODELS[component], ()))


def _expand_shorthands(component: Component, tree: Tree) -> None:
    """Turn plain values that stand for a table into that table."""
    for path, key in _shorthand_paths(component).items():
        node: Any = tree
        for part in path[:-1]:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, dict) and isinstance(value := node.get(path[-1]), str | int | float):
            node[path[-1]] = {key: value}
