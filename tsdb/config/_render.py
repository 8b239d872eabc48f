"""The configuration in force as TOML: every value with its origin, secrets masked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum

from pydantic import SecretStr

from tsdb.config._fields import Address, JoinedAddresses, Section
from tsdb.config._load import LoadedConfig
from tsdb.config._schema import Path, dotted, section_models
from tsdb.units import Duration, Size

MASK = "******"
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def render(loaded: LoadedConfig) -> str:
    """Write the effective configuration; it can be used as a configuration file, but for masked secrets."""
    lines = [
        f"# The configuration of this {loaded.component} in effect, with the source of each value.",
        "",
        *_table(loaded, loaded.config, ()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def settings_of(section: Section) -> dict[str, object]:
    """Return the values of a section as plain ones, sections in sections, secrets masked as `render` masks them."""
    found: dict[str, object] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            found[name] = settings_of(value)
        elif _is_table(value):
            found[name] = [settings_of(item) for item in value]
        else:
            found[name] = tomllib.loads(f"value = {toml_value(value)}")["value"]
    return found


def toml_value(value: object) -> str:
    """Write one value as TOML, masking what is secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return '""'
        case SecretStr():
            return toml_value(MASK if value.get_secret_value() else "")
        case Size() | Duration() | Address() | JoinedAddresses() | StrEnum():
            return toml_value(str(value))
        case int() | float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case dict():
            items = ", ".join(f"{toml_key(name)} = {toml_value(item)}" for name, item in value.items())
            return f"{{ {items} }}" if items else "{}"
        case _:
            return quote(_USERINFO.sub(f"{MASK}@", str(value)))


def toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote(name)


def quote(text: str) -> str:
    """Write a TOML basic string."""
    escaped = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08x}" for char in text
    )
    return f'"{escaped}"'


def _table(loaded: LoadedConfig, section: Section, path: Path) -> Iterator[str]:
    """Write the values of a table first and its sub-tables after them, as TOML needs it."""
    names = list(type(section).model_fields)
    for name in names:
        value = getattr(section, name)
        is_absent_table = value is None and section_models(type(section).model_fields[name].annotation)
        if not _is_table(value) and not is_absent_table:
            yield f"{name} = {toml_value(value)}  # {loaded.origin((*path, name))}"
    for name in names:
        value = getattr(section, name)
        here = (*path, name)
        if isinstance(value, Section):
            yield from ("", f"[{header(here)}]", *_table(loaded, value, here))
        elif _is_table(value):
            for position, item in enumerate(value):
                yield from ("", f"[[{header(here)}]]", *_table(loaded, item, (*here, position)))


def _is_table(value: object) -> bool:
    return isinstance(value, Section) or (isinstance(value, list) and bool(value) and isinstance(value[0], Section))


def header(path: Path) -> str:
    """Write a path as a TOML table header, where array positions are not spelt out."""
    return dotted(tuple(part for part in path if not isinstance(part, int)))
