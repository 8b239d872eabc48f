"""The configuration models seen as a flat list of keys.

Environment variables, suggestions for misspelt keys, the example files and the documentation all need to know which
keys exist; they read it here, from the models, so that a key is described in one place only.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tsdb.config._components import CONFIG_MODELS
from tsdb.config._fields import Address, JoinedAddresses, Section
from tsdb.config._operations import TracingSampleRatioOptions
from tsdb.config.options import Component
from tsdb.units import Duration, Size

INDEX = "*"
"""Stands in a key's path for the position in an array of tables."""

Path = tuple[str | int, ...]

# A table that may be written as a plain value is that table with one key set.
SHORTHANDS: dict[type[Section], str] = {TracingSampleRatioOptions: "default_ratio"}

_TYPE_NAMES: dict[object, str] = {
    bool: "Boolean",
    int: "Integer",
    float: "Number",
    str: "String",
    SecretStr: "String (secret)",
    Size: "Size",
    Duration: "Duration",
    Address: "Address",
    JoinedAddresses: "String of addresses",
    tuple: "List of addresses",
    dict: "Table of strings (secret)",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration."""

    path: tuple[str, ...]
    type_name: str
    default: object
    is_required: bool
    meaning: str
    variants: tuple[str, ...] = ()
    """The storage types that have this key; empty where there is no such choice."""

    @property
    def dotted(self) -> str:
        return dotted(self.path)


def dotted(path: tuple[str | int, ...]) -> str:
    """Write a path as people do: `region_engine[0].mito.num_workers`, `[]` for any position."""
    text = ""
    for part in path:
        if part == INDEX:
            text += "[]"
        elif isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _plain(annotation: Any) -> Any:
    """Strip `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        if len(members) == 1:
            return _plain(members[0])
    return annotation


def section_models(annotation: Any) -> tuple[type[Section], ...]:
    """Return the section models that a field of this type may hold: none, one, or the members of a union."""
    plain = _plain(annotation)
    if get_origin(plain) in (Union, types.UnionType):
        return tuple(model for member in get_args(plain) for model in section_models(member))
    return (plain,) if isinstance(plain, type) and issubclass(plain, Section) else ()


def array_models(annotation: Any) -> tuple[type[Section], ...]:
    """Return the section models of an array of tables; none if the field is something else."""
    plain = _plain(annotation)
    return section_models(get_args(plain)[0]) if get_origin(plain) is list else ()


def _type_name(annotation: Any) -> str:
    plain = _plain(annotation)
    kind = get_origin(plain) or plain
    if kind in (Union, types.UnionType):
        return " or ".join(_type_name(member) for member in get_args(plain))
    if kind is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return "String"
    return _TYPE_NAMES[kind]


def _leaf(name: str, field: FieldInfo, prefix: tuple[str, ...]) -> Key:
    return Key(
        path=(*prefix, name),
        type_name=_type_name(field.annotation),
        default=None if field.default is PydanticUndefined else field.default,
        is_required=field.is_required(),
        meaning=field.description or "",
    )


def _walk(model: type[Section], prefix: tuple[str, ...]) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path = (*prefix, name)
        if members := array_models(field.annotation):
            yield from _walk_members(members, (*path, INDEX))
        elif members := section_models(field.annotation):
            yield from _walk_members(members, path)
        else:
            yield _leaf(name, field, prefix)


def _walk_members(members: tuple[type[Section], ...], prefix: tuple[str, ...]) -> Iterator[Key]:
    """Walk one model, or the members of a storage union: each key once, with the types that have it.

    A key that all members have keeps the variants it already has from a union further inside.
    """
    if len(members) == 1:
        yield from _walk(members[0], prefix)
        return
    keys: dict[tuple[str, ...], Key] = {}
    owners: dict[tuple[str, ...], tuple[str, ...]] = {}
    for member in members:
        variant = get_args(member.model_fields["type"].annotation)[0].value
        for key in _walk(member, prefix):
            keys.setdefault(key.path, key)
            owners[key.path] = (*owners.get(key.path, ()), variant)
    for path, key in keys.items():
        yield key if len(owners[path]) == len(members) else replace(key, variants=owners[path])


@functools.cache
def keys_of(component: Component) -> dict[tuple[str, ...], Key]:
    """Return every key of a component by its path, in the order of the models."""
    return {key.path: key for key in _walk(CONFIG_MODELS[component], ())}


def generic(path: Path) -> tuple[str, ...]:
    """Return a path with its array positions replaced by `INDEX`, as keys are stored."""
    return tuple(INDEX if isinstance(part, int) else part for part in path)


def environment_variable(prefix: str, path: tuple[str | int, ...]) -> str:
    """Return the variable that sets a key: `TSDB_STANDALONE__HTTP__ADDR`."""
    return "__".join((prefix, *(str(part).replace(INDEX, "0").upper() for part in path)))
