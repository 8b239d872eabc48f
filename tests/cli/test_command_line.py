"""The command line: help that teaches, suggestions, versions, and that it answers at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from tsdb.cli._commands import _tree
from tsdb.config import Component, load_config, render, render_example

HELP_MODULES_MAX = 110  # 96 today, 14 of them our own


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


def test_help_imports_few_modules() -> None:
    """Help answers at once because it loads little: modules are counted, for a busy machine makes any time long."""
    probe = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import tsdb.cli\n"
        "sys.argv = ['tsdb', 'standalone', 'start', '--help']\n"
        "try:\n"
        "    tsdb.cli.main()\n"
        "except SystemExit as exit:\n"
        "    assert not exit.code, exit.code\n"
        "print(len(set(sys.modules) - before), file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert "--http-addr" in result.stdout, result.stderr
    assert int(result.stderr) <= HELP_MODULES_MAX


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
