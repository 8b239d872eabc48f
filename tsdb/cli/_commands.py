"""The command tree: `tsdb <component> start | config | example-config`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from tsdb.cli._client_commands import client_commands
from tsdb.cli._options import CONTEXT, component_command, version_option
from tsdb.config import Component
from tsdb.errors import ConfigError, StartError
from tsdb.quick_imports import quick_imports

if TYPE_CHECKING:
    from tsdb.config import LoadedConfig

_MEANINGS = {
    Component.STANDALONE: "The complete database in one process.",
    Component.FRONTEND: "The protocol servers of a cluster.",
    Component.DATANODE: "The storage of a cluster.",
    Component.METASRV: "The metadata of a cluster, in etcd.",
}
_EPILOG = """\b
Examples:
  tsdb standalone start --data-home ./data           start a database with its data in ./data
  tsdb standalone example-config > tsdb.toml         write a configuration file with all keys
  tsdb standalone start -c tsdb.toml                 start with this file
  tsdb standalone config -c tsdb.toml                show the effective configuration

\b
Once it runs:
  tsdb demo                                          load sample data
  tsdb cli                                           a shell for SQL and PromQL
  curl http://127.0.0.1:4000/v1/sql -d "sql=SELECT 1"
  curl http://127.0.0.1:4000/v1/influxdb/write --data-binary "cpu,host=a usage=0.5"
  psql -h 127.0.0.1 -p 4003 -U me public
  mysql -h 127.0.0.1 -P 4002 -u me public

\b
Documentation: README.md and docs/ in the source tree. Begin with docs/getting-started.md;
docs/configuration.md lists all options and keys.
"""
_START_EPILOGS = {
    Component.STANDALONE: """\b
Examples:
  tsdb standalone start --data-home ./data
  tsdb standalone start -c tsdb.toml --log-level debug
  TSDB_STANDALONE__HTTP__ADDR=0.0.0.0:4000 tsdb standalone start --data-home /var/lib/tsdb

\b
Precedence: options, the configuration file, environment variables, defaults.
`tsdb standalone config` takes the same options and shows the effective configuration.
"""
}


def main() -> NoReturn:
    """Run the executable."""
    sys.exit(_tree().main(prog_name="tsdb", standalone_mode=True))


def _tree() -> click.Group:
    root = click.Group(
        "tsdb",
        help="A time-series database with SQL and PromQL.",
        epilog=_EPILOG,
        context_settings=CONTEXT,
        params=[version_option()],
    )
    for component in Component:
        root.add_command(_component(component))
    for command in client_commands():
        root.add_command(command)
    return root


def _component(component: Component) -> click.Group:
    group = click.Group(component.value, help=_MEANINGS[component], context_settings=CONTEXT, params=[version_option()])
    group.add_command(
        component_command(
            "start",
            component,
            f"Start a {component}; it runs until SIGINT (Ctrl-C) or SIGTERM.",
            epilog=_START_EPILOGS.get(component),
        )(_start)
    )
    group.add_command(
        component_command(
            "config",
            component,
            "Print the configuration that `start` would use, with the source of each value.",
        )(_config)
    )

    @group.command(
        "example-config", help="Print a commented example configuration file with all keys.", context_settings=CONTEXT
    )
    def example_config() -> None:
        from tsdb.config import render_example

        click.echo(render_example(component), nl=False)

    example_config.params.append(version_option())
    return group


def _load(component: Component, config_file: str | None, env_prefix: str, options: Mapping[str, str]) -> LoadedConfig:
    from tsdb.config import load_config

    try:
        return load_config(
            component,
            options=options,
            file=Path(config_file) if config_file is not None else None,
            env_prefix=env_prefix,
        )
    except ConfigError as error:
        _fail(error)


def _config(component: Component, *, config_file: str | None, env_prefix: str, options: Mapping[str, str]) -> None:
    from tsdb.config import render

    click.echo(render(_load(component, config_file, env_prefix, options)), nl=False)


def _start(component: Component, *, config_file: str | None, env_prefix: str, options: Mapping[str, str]) -> None:
    loaded = _load(component, config_file, env_prefix, options)
    with quick_imports():
        from tsdb.components.run import run_component

    try:
        run_component(loaded, announce=click.echo)
    except StartError as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    click.echo(f"tsdb: {error}", err=True)
    sys.exit(1)
