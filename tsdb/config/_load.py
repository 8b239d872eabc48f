"""Loading a configuration: read the layers, merge, validate, derive, check; then say all that is wrong at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from tsdb.config._checks import find_problems
from tsdb.config._components import ComponentConfig
from tsdb.config._derive import derive, memory_bytes
from tsdb.config._layers import DEFAULT, Origin, merge, read_environment, read_file, read_options
from tsdb.config._schema import Path, dotted
from tsdb.config._validate import Validator
from tsdb.config.options import Component
from tsdb.errors import ConfigError

# A secret shorter than this would hide ordinary text wherever it occurs.
_SECRET_LENGTH_MIN = 4
_INLINE_USERS = "static_user_provider:cmd:"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration in force, with the origin of every value that is not a plain default."""

    component: Component
    config: ComponentConfig
    origins: Mapping[Path, Origin]

    def origin(self, path: Path) -> Origin:
        """Return where the value of a key came from."""
        if path in self.origins:
            return self.origins[path]
        return next((origin for known, origin in self.origins.items() if known[: len(path)] == path), DEFAULT)

    def secrets(self) -> tuple[str, ...]:
        """Return the secret values, so that logs can hide them."""
        return tuple({text for text in _secrets(self.config) if len(text) >= _SECRET_LENGTH_MIN})


def load_config(
    component: Component,
    *,
    options: Mapping[str, str] | None = None,
    file: FilePath | None = None,
    environment: Mapping[str, str] | None = None,
    env_prefix: str | None = None,
    memory: int | None = None,
) -> LoadedConfig:
    """Resolve the configuration of a component; raise ConfigError with every problem found."""
    prefix = env_prefix or component.env_prefix
    variables = os.environ if environment is None else environment
    layers = [read_options(component, options or {})]
    if file is not None:
        layers.append(read_file(component, file))
    layers.append(read_environment(component, variables, prefix))
    merged = merge(layers)

    config, problems = Validator(component, merged.origins, prefix).validate(merged.tree)
    told = [*merged.problems, *problems.values()]
    if config is None:
        raise ConfigError(told)
    config, derived = derive(config, merged.origins, memory_bytes() if memory is None else memory)
    loaded = LoadedConfig(component, config, {**derived, **merged.origins})
    told += _rule_problems(loaded, wrong=set(problems))
    if told:
        raise ConfigError(told)
    return loaded


def _rule_problems(loaded: LoadedConfig, wrong: set[Path]) -> Iterator[str]:
    """Tell the broken rules between keys, but for those about a value that is wrong by itself."""
    for paths, message in find_problems(loaded.config):
        if any(bad[: len(path)] == path or path[: len(bad)] == bad for bad in wrong for path in paths):
            continue
        origin = next((loaded.origin(path) for path in paths if loaded.origin(path).kind != "default"), None)
        yield f"{dotted(paths[0])}: {message}" + (f" (from {origin})" if origin else "")


def _secrets(value: object) -> Iterator[str]:
    """Yield every secret in a value: whole secret keys, passwords inside a user list or an address."""
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        yield text
        if text.startswith(_INLINE_USERS):
            yield from (user.partition("=")[2] for user in text.removeprefix(_INLINE_USERS).split(","))
    elif isinstance(value, str):
        if "://" in value and "@" in value:
            yield unquote(urlsplit(value).password or "")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _secrets(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item)
