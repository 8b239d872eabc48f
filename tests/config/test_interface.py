"""Every row of the interface's tables is set by file, environment and option, and seen with its origin."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.config.interface_rows import KEY_ROWS, OPTION_ROWS, KeyRow, OptionRow
from tsdb.cli._commands import _tree
from tsdb.config import Component, load_config, options_of, render
from tsdb.config._schema import dotted, generic, keys_of

_KEY_CASES = [
    pytest.param(component, row, id=f"{component}-{row.path}-{position}")
    for position, row in enumerate(KEY_ROWS)
    for component in row.components
]
_OPTION_CASES = [
    pytest.param(component, row, id=f"{component}{row.option}-{row.argument}")
    for row in OPTION_ROWS
    for component in row.components
]


def _document(values: dict[str, str]) -> str:
    """Write dotted keys as TOML tables; position 0 is the first entry of an array of tables."""
    lines = []
    for path, value in values.items():
        table, _, key = path.rpartition(".")
        if not table:
            lines.insert(0, f"{key} = {value}")
        elif table.startswith("region_engine.0"):
            lines += ["[[region_engine]]", f"[{table.replace('.0', '')}]", f"{key} = {value}"]
        else:
            lines.append(f"{table}.{key} = {value}")
    # Dotted keys belong to the root table, so they stand before any header.
    headers = next((at for at, line in enumerate(lines) if line.startswith("[")), len(lines))
    roots = [line for line in lines[headers:] if re.match(r"[a-z_]+\.[a-z_.]+ = ", line)]
    rest = [line for line in lines[headers:] if line not in roots]
    return "\n".join([*lines[:headers], *roots, *rest]) + "\n"


def _variable(component: str, path: str) -> str:
    return f"TSDB_{component}__{path.replace('.', '__')}".upper()


def _seen(component: str, path: str, text: str) -> tuple[str, str]:
    """Find value and origin of a key in the printed effective configuration."""
    *tables, key = path.replace(".0", "").split(".")
    section = re.split(r"^\[\[?([\w.]+)\]\]?$", text, flags=re.MULTILINE)
    body = dict(zip(["", *section[1::2]], [section[0], *section[2::2]], strict=True))[".".join(tables)]
    match = re.search(rf"^{key} = (.*?)  # (.*)$", body, flags=re.MULTILINE)
    assert match, f"{component} does not show {path}"
    return match[1], match[2]


def _base(component: str, row: KeyRow) -> dict[str, str]:
    required = {"node_id": "1"} if component == "datanode" and row.path != "node_id" else {}
    return required | row.needs


@pytest.mark.parametrize(("component", "row"), _KEY_CASES)
def test_key_is_set_by_file_and_by_environment_and_file_is_stronger(
    component: str, row: KeyRow, tmp_path: Path
) -> None:
    base = _base(component, row)
    with_key, without_key = tmp_path / "with.toml", tmp_path / "without.toml"
    with_key.write_text(_document(base | {row.path: row.file}))
    without_key.write_text(_document(base))
    variable = {_variable(component, row.path): row.env}

    def effective(file: Path, environment: dict[str, str]) -> tuple[str, str]:
        loaded = load_config(Component(component), file=file, environment=environment)
        return _seen(component, row.path, render(loaded))

    assert effective(with_key, {}) == (row.file_shows, f"file {with_key}")
    assert effective(without_key, variable) == (row.env_shows, f"environment {next(iter(variable))}")
    assert effective(with_key, variable) == (row.file_shows, f"file {with_key}")


@pytest.mark.parametrize("storage_type", ["File", "S3", "Oss", "Azblob", "Gcs", "Gsc"])
@pytest.mark.parametrize("component", ["standalone", "datanode"])
def test_storage_type_is_set_by_file_and_environment(component: str, storage_type: str, tmp_path: Path) -> None:
    keys = {"bucket": "b", "endpoint": "http://e"} if storage_type not in ("File", "Azblob") else {}
    if storage_type == "Azblob":
        keys = {"container": "c", "endpoint": "http://e"}
    lines = [f'{key} = "{value}"' for key, value in keys.items()]
    file = tmp_path / "c.toml"
    node = "node_id = 1\n" if component == "datanode" else ""
    file.write_text(f'{node}[wal]\ndir = "/w"\n[storage]\ntype = "{storage_type}"\n' + "\n".join(lines))
    shown = "Gcs" if storage_type == "Gsc" else storage_type
    by_file = load_config(Component(component), file=file, environment={})
    assert _seen(component, "storage.type", render(by_file)) == (f'"{shown}"', f"file {file}")

    prefix = f"TSDB_{component.upper()}"
    environment = {f"{prefix}__STORAGE__{key.upper()}": value for key, value in keys.items()}
    environment |= {f"{prefix}__STORAGE__TYPE": storage_type, f"{prefix}__WAL__DIR": "/w"}
    environment |= {f"{prefix}__NODE_ID": "1"} if component == "datanode" else {}
    by_environment = load_config(Component(component), environment=environment)
    assert _seen(component, "storage.type", render(by_environment)) == (
        f'"{shown}"',
        f"environment {prefix}__STORAGE__TYPE",
    )


@pytest.mark.parametrize(
    ("component", "mode"),
    [("standalone", "standalone"), ("frontend", "distributed"), ("datanode", "distributed")],
)
def test_mode_is_set_by_file_and_environment(component: str, mode: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'mode = "{mode}"\n' + ("node_id = 1\n" if component == "datanode" else ""))
    by_file = load_config(Component(component), file=file, environment={})
    assert _seen(component, "mode", render(by_file)) == (f'"{mode}"', f"file {file}")
    variable = _variable(component, "mode")
    environment = {variable: mode} | ({"TSDB_DATANODE__NODE_ID": "1"} if component == "datanode" else {})
    by_environment = load_config(Component(component), environment=environment)
    assert _seen(component, "mode", render(by_environment)) == (f'"{mode}"', f"environment {variable}")


@pytest.mark.parametrize(("component", "row"), _OPTION_CASES)
def test_option_sets_its_keys_and_beats_file_and_environment(
    component: str, row: OptionRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaker = {key: next(each for each in KEY_ROWS if each.path == key) for key in row.keys}
    base = {"node_id": "1"} if component == "datanode" else {}
    file = tmp_path / "c.toml"
    needs = {key: value for each in weaker.values() for key, value in each.needs.items()}
    file.write_text(_document(base | needs | {key: each.file for key, each in weaker.items()}))
    for key, each in weaker.items():
        monkeypatch.setenv(_variable(component, key), each.env)
    argument = [] if row.argument is None else [row.argument]
    extra = list(row.needs)
    result = CliRunner().invoke(
        _tree(), [component, "config", "-c", str(file), row.option, *argument, *extra], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    for key in row.keys:
        assert _seen(component, key, result.output) == (row.shows, f"option {row.option}")


def test_the_rows_are_all_keys_that_exist() -> None:
    for component in Component:
        typed = {
            generic(tuple(int(part) if part.isdecimal() else part for part in row.path.split(".")))
            for row in KEY_ROWS
            if component in row.components
        }
        # Keys with tests of their own above and below, or that exist to be refused with a reason.
        typed |= {("mode",)} if component != Component.METASRV else set()
        typed |= {("storage", "type")} if component in (Component.STANDALONE, Component.DATANODE) else set()
        known = set(keys_of(component))
        providers = {path for path in known if path[:2] == ("storage", "providers")}
        refused = {("export_metrics", "self_import", "db")} - typed
        assert {dotted(path) for path in known - providers - refused} == {dotted(path) for path in typed}


def test_the_rows_are_all_options_that_exist() -> None:
    for component in Component:
        typed = {row.option for row in OPTION_ROWS if component in row.components}
        assert {option.name for option in options_of(component)} == typed


@pytest.mark.parametrize("component", list(Component))
def test_start_and_config_take_the_same_options(component: Component) -> None:
    group = _tree().commands[component]
    assert isinstance(group, click.Group)
    start, config = group.commands["start"], group.commands["config"]
    names = [sorted(name for parameter in command.params for name in parameter.opts) for command in (start, config)]
    assert names[0] == names[1]
    assert {"-c", "--config-file", "--env-prefix", "-V", "--version"} <= set(names[0])


@pytest.mark.parametrize("component", list(Component))
def test_option_defaults_are_those_of_the_models(component: Component) -> None:
    environment = {"TSDB_DATANODE__NODE_ID": "1"}
    shown = render(load_config(component, environment=environment, memory=1 << 34))
    for option in options_of(component):
        for key in option.keys[component]:
            value = _seen(component, key, shown)[0].strip('"[]')
            if option.default:
                assert value == option.default + ("s" if option.kind == "seconds" else ""), option.name


def test_env_prefix_changes_the_variables_that_are_read() -> None:
    environment = {"MY__HTTP__ADDR": "127.0.0.1:9", "TSDB_STANDALONE__HTTP__ADDR": "127.0.0.1:8"}
    loaded = load_config(Component.STANDALONE, environment=environment, env_prefix="MY")
    assert str(loaded.config.http.addr) == "127.0.0.1:9"


def test_sample_ratio_may_be_a_plain_number(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[logging]\ntracing_sample_ratio = 0.5\n")
    loaded = load_config(Component.STANDALONE, file=file, environment={})
    assert loaded.config.logging.tracing_sample_ratio.default_ratio == 0.5
    variable = "TSDB_STANDALONE__LOGGING__TRACING_SAMPLE_RATIO"
    loaded = load_config(Component.STANDALONE, environment={variable: "0.75"})
    assert loaded.config.logging.tracing_sample_ratio.default_ratio == 0.75
    assert str(loaded.origin(("logging", "tracing_sample_ratio", "default_ratio"))) == f"environment {variable}"


def test_storage_providers_come_from_file_or_numbered_variables(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        '[[storage.providers]]\ntype = "S3"\nbucket = "a"\n[[storage.providers]]\ntype = "Gcs"\nbucket = "b"\n'
    )
    prefix = "TSDB_STANDALONE__STORAGE__PROVIDERS"
    environment = {
        f"{prefix}__0__TYPE": "Azblob",
        f"{prefix}__0__CONTAINER": "c",
        f"{prefix}__0__ENDPOINT": "e",
    }
    by_environment = load_config(Component.STANDALONE, environment=environment)
    assert 'container = "c"' in render(by_environment)
    both = render(load_config(Component.STANDALONE, file=file, environment=environment))
    assert both.count("[[storage.providers]]") == 2
    assert "container" not in both  # the file's array replaces the environment's as a whole
