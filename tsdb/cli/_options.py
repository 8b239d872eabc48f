"""Click commands made from the option table, with help in groups.

Option texts are passed on as typed: the configuration parses them, because it knows the types and the other layers, and
reports all errors at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from tsdb.config import Component, Option, OptionKind, options_of
from tsdb.config.options import CONFIGURATION

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class GroupedOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


def option_group(title: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return what `click.option` is, for options under a heading."""
    return partial(click.option, cls=GroupedOption, group=title)


class GroupedCommand(click.Command):
    """A command whose help lists options by their groups, general ones last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "General"), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def version_option() -> click.Option:
    """Make `-V`, `--version`; the version is looked up only on demand."""

    def show(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from tsdb import __version__

            click.echo(f"tsdb {__version__}")
            ctx.exit()

    return click.Option(
        ["-V", "--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show the version and exit.",
    )


def component_command(
    name: str, component: Component, meaning: str, *, epilog: str | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command that takes every option of a component and passes those given, by name, as `options`."""

    def declare(function: Callable[..., Any]) -> click.Command:
        def run(config_file: str | None, env_prefix: str, **given: str | None) -> None:
            options = {key: text for key, text in given.items() if text is not None}
            function(component, config_file=config_file, env_prefix=env_prefix, options=options)

        command = click.command(name, cls=GroupedCommand, help=meaning, epilog=epilog, context_settings=CONTEXT)(run)
        command.params += [*_parameters(component), version_option()]
        return command

    return declare


def _parameters(component: Component) -> list[click.Parameter]:
    return [
        GroupedOption(
            ["-c", "--config-file"],
            group=CONFIGURATION,
            metavar="FILE",
            help="Configuration file (TOML).",
        ),
        GroupedOption(
            ["--env-prefix"],
            group=CONFIGURATION,
            metavar="PREFIX",
            default=component.env_prefix,
            show_default=True,
            help="Prefix of the environment variables.",
        ),
        *(_parameter(option, component) for option in options_of(component)),
    ]


def _parameter(option: Option, component: Component) -> click.Parameter:
    facts = [f"key: {', '.join(option.keys[component])}"]
    if option.default:
        facts.append(f"default: {option.default}")
    settings: dict[str, Any] = {"metavar": option.metavar}
    if option.kind is OptionKind.FLAG:
        # `--flag` alone means true; `--flag=false` and `--flag false` are taken too.
        settings |= {"is_flag": False, "flag_value": "true"}
    return GroupedOption(
        [option.name, option.parameter],
        group=option.group,
        type=str,
        help=f"{option.meaning}.  [{'; '.join(facts)}]",
        **settings,
    )
