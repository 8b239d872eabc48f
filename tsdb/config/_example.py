"""The commented example configuration of a component, written from its models.

It parses to exactly the defaults: keys with a default are set to it, keys without one, and everything of another
storage type, stand there as comments: `#key = value` is a setting, `# text` an explanation.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tsdb.config._components import CONFIG_MODELS
from tsdb.config._derive import derived_paths
from tsdb.config._fields import Section
from tsdb.config._render import header, toml_value
from tsdb.config._schema import Path, array_models, section_models
from tsdb.config._storage import PROVIDER_MODELS, STORAGE_MODELS, StorageBase, StorageType
from tsdb.config.options import Component

_WIDTH = 100
_SAMPLES: dict[str, object] = {
    "node_id": 42,
    "bucket": "<BUCKET>",
    "container": "<CONTAINER>",
    "endpoint": "<ENDPOINT>",
    "access_key_id": "<ACCESS_KEY_ID>",
    "secret_access_key": "<SECRET_ACCESS_KEY>",
    "account_key": "<ACCOUNT_KEY>",
    "sas_token": "<SAS_TOKEN>",
    "credential_path": "<PATH>",
    "url": "http://127.0.0.1:4000/v1/prometheus/write?db=public",
    "headers": {"Authorization": "<BASIC_CREDENTIALS>"},
}


def render_example(component: Component) -> str:
    """Write the example file of a component."""
    lines = [
        f"# Example configuration of `tsdb {component} start -c FILE`: every key, at its default.",
        "# Command-line options take precedence over this file, this file over environment variables named",
        f"# {component.env_prefix}__SECTION__KEY. Sizes are binary: MB and MiB both mean 1024 x 1024 bytes.",
        "# Lines starting with # and a space are comments; lines starting with # alone are settings to uncomment.",
        "",
        *_table(CONFIG_MODELS[component], ()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(model: type[Section], path: Path, *, is_active: bool = True) -> Iterator[str]:
    """Write the values of a table, then its sub-tables."""
    yield from _values(model, path, is_active=is_active)
    yield from _sub_tables(model, path)


def _values(model: type[Section], path: Path, *, is_active: bool) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if not section_models(field.annotation) and not array_models(field.annotation):
            yield from _key(name, field, (*path, name), is_active=is_active)


def _sub_tables(model: type[Section], path: Path) -> Iterator[str]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        if members := array_models(field.annotation):
            yield from _array(here, members, field)
        elif members := section_models(field.annotation):
            yield from _sub_table(here, members, field)


def _key(name: str, field: FieldInfo, path: Path, *, is_active: bool) -> Iterator[str]:
    yield from _comment(field.description or "")
    default = field.default
    # A sample says more than an empty default where the table as a whole is only shown, not set.
    if default is PydanticUndefined or (not is_active and name in _SAMPLES):
        default = _SAMPLES.get(name, "")
        is_active = False
    # A key whose default depends on the machine must stay unset to keep that default.
    mark = "" if is_active and path not in derived_paths() else "#"
    yield f"{mark}{name} = {toml_value(default)}"


def _sub_table(path: Path, members: tuple[type[Section], ...], field: FieldInfo) -> Iterator[str]:
    yield from ("", *_comment(field.description or ""))
    if len(members) > 1:
        yield from _storage(path)
        return
    is_active = field.default is not None
    yield f"{'' if is_active else '#'}[{header(path)}]"
    yield from _table(members[0], path, is_active=is_active)


def _storage(path: Path) -> Iterator[str]:
    yield f"[{header(path)}]"
    yield from _values(STORAGE_MODELS[StorageType.FILE], path, is_active=True)
    for kind, model in STORAGE_MODELS.items():
        if kind is StorageType.FILE:
            continue
        yield from ("", f"# With type {kind}:")
        yield f"#type = {toml_value(kind.value)}"
        for name, field in model.model_fields.items():
            if name != "type" and name not in StorageBase.model_fields:
                yield from _key(name, field, (*path, name), is_active=False)
    yield from _sub_tables(STORAGE_MODELS[StorageType.FILE], path)


def _array(path: Path, members: tuple[type[Section], ...], field: FieldInfo) -> Iterator[str]:
    yield from ("", *_comment(field.description or ""))
    if field.default:
        yield f"[[{header(path)}]]"
        yield from _table(members[0], (*path, 0))
        return
    # The keys of each storage type are explained under [storage]; repeating the texts here would say nothing new.
    yield "# An entry has the keys of its storage type, as listed above; one of type Gcs for example:"
    yield f"#[[{header(path)}]]"
    yield f"#type = {toml_value(StorageType.GCS.value)}"
    for name in PROVIDER_MODELS[StorageType.GCS].model_fields:
        if name != "type":
            yield f"#{name} = {toml_value(_SAMPLES.get(name, ''))}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")
