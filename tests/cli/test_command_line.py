"""The command line: help that teaches, suggestions, versions, and that it answers at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from tests.server_process import TSDB
from tsdb.cli._commands import _tree
from tsdb.config import Component, load_config, render, render_example

HELP_STARTS_MAX = 10  # of a bare interpreter: 0.15 s where that takes 15 ms


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(_tree(), arguments, prog_name="tsdb")


@pytest.mark.parametrize("arguments", [(), ("standalone",), ("standalone", "start"), ("metasrv", "config")])
@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version_is_told_at_every_level(arguments: tuple[str, ...], option: str) -> None:
    result = _run(*arguments, option)
    assert result.exit_code == 0
    assert result.output.startswith("tsdb 0.")


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("component", list(Component))
def test_help_groups_options_and_shows_keys_and_defaults(component: Component, option: str) -> None:
    text = " ".join(_run(component, "start", option).output.split())
    assert "Configuration: -c, --config-file FILE" in text
    assert f"[default: {component.env_prefix}]" in text
    assert "Servers: --http-addr HOST:PORT HTTP server address. [key: http.addr; default: 127.0.0.1:4000]" in text
    assert "Logging: --log-dir DIR" in text


def test_unknown_option_suggests_the_nearest() -> None:
    result = _run("standalone", "start", "--htp-addr", "x")
    assert result.exit_code == 2
    assert "No such option '--htp-addr'" in result.output
    assert "--http-addr" in result.output


def test_option_of_another_component_is_unknown() -> None:
    result = _run("standalone", "start", "--node-id", "1")
    assert result.exit_code == 2
    assert "No such option '--node-id'" in result.output


def test_unknown_command_suggests_the_nearest() -> None:
    result = _run("standalone", "strat")
    assert result.exit_code == 2
    assert "'start'" in result.output


def test_config_prints_the_effective_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSDB_METASRV__SELECTOR", "load_based")
    result = _run("metasrv", "config", "--use-memory-store")
    assert result.exit_code == 0
    assert 'selector = "load_based"  # environment TSDB_METASRV__SELECTOR\n' in result.output
    assert "use_memory_store = true  # option --use-memory-store\n" in result.output
    expected = load_config(
        Component.METASRV, options={"use_memory_store": "true"}, environment={"TSDB_METASRV__SELECTOR": "load_based"}
    )
    assert result.output == render(expected)


def test_config_with_problems_exits_with_1_and_tells_them() -> None:
    result = _run("datanode", "config")
    assert result.exit_code == 1
    assert "node_id: is required; set it by --node-id" in result.output


@pytest.mark.parametrize("component", list(Component))
def test_example_config_prints_the_example(component: Component) -> None:
    assert _run(component, "example-config").output == render_example(component)


def test_help_answers_at_once() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    help_command = [*TSDB, "standalone", "start", "--help"]
    bare_command = [sys.executable, "-c", "pass"]

    def seconds(command: list[str]) -> float:
        """Time of the processor, not of the clock: the machine may be busy with other tests."""
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    seconds(help_command)  # the first run compiles what is not compiled yet
    turns = [(seconds(help_command), seconds(bare_command)) for _ in range(10)]
    assert min(turn[0] for turn in turns) < HELP_STARTS_MAX * min(turn[1] for turn in turns)


HEAVY = (
    "pydantic",
    "pyarrow",
    "numpy",
    "uvloop",
    "asyncio",
    "tsdb._kernels",
    "rich",
    "prompt_toolkit",
    "pygments",
    "ssl",
)


def test_help_of_no_command_imports_anything_heavy() -> None:
    probe = (
        "import sys, tsdb.cli._commands as c, click.testing as t\n"
        "for words in ([], ['standalone', 'start'], ['cli'], ['demo'], ['import'], ['export']):\n"
        "    result = t.CliRunner().invoke(c._tree(), [*words, '--help'])\n"
        "    assert result.exit_code == 0, (words, result.output)\n"
        f"    assert not (found := set({HEAVY!r}) & set(sys.modules)), (words, found)\n"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
