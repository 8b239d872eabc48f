"""The commands and Python examples of README.md and docs/ run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server_process import ServerProcess, running
from tsdb.config import Component, StandaloneConfig, load_config

ROOT = Path(__file__).parents[2]
DEFAULT_ADDRESS = "http://127.0.0.1:4000"


def _commands() -> Iterator[tuple[str, str]]:
    """Yield document and command of every line in a shell block."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip() and not line.startswith("#"):
                    yield str(path.relative_to(ROOT)), line.strip()


DOCUMENTS = sorted({document for document, _ in _commands()})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("readme")) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSDB_URL", started.url)  # for `tsdb cli` and its siblings
        yield started


@pytest.fixture(scope="module")
def checkout(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory like the checkout, to write to; curl finds the server at the default port there."""
    directory = tmp_path_factory.mktemp("checkout")
    for name in (".venv", "Makefile", "benchmarks", "dashboard", "kernels", "pyproject.toml", "requirements"):
        (directory / name).symlink_to(ROOT / name)
    address = urlsplit(server.url).netloc
    (directory / ".curlrc").write_text(f'fail\nsilent\nshow-error\nconnect-to = "127.0.0.1:4000:{address}"\n')
    return directory


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_commands_run_one_after_the_other(document: str, checkout: Path) -> None:
    for found, command in _commands():
        if found == document:
            _run(command, checkout)


def _run(command: str, checkout: Path) -> None:
    """Run a command as it is written; of make, which would install packages, only see what it would run."""
    if command.startswith("make "):
        last = _succeed(["sh", "-c", f"{command} --dry-run --no-print-directory"], checkout).splitlines()[-1]
        if command.startswith("make run"):
            # `config` takes the arguments of `start` and ends.
            _succeed(["sh", "-c", re.sub(r" start\b", " config", last)], checkout)
        return
    answer = _succeed(["sh", "-c", command], checkout)
    assert not command.startswith("curl ") or '"error"' not in answer, answer


def _succeed(command: list[str], directory: Path) -> str:
    variables = {**os.environ, "CURL_HOME": str(directory)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables, cwd=directory)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def test_readme_names_the_two_commands() -> None:
    targets = {" ".join(command.split()[:2]) for document, command in _commands() if document == "README.md"}
    assert {"make run", "make test"} <= targets


def test_python_examples_of_the_readme_run_as_one_program(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last example reads the table that the shell commands make; it is made here if they have not run yet."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    table = "CREATE TABLE IF NOT EXISTS cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, usage DOUBLE)"
    row = "INSERT INTO cpu VALUES ('readme', 1704110400000, 0.5)"
    assert httpx.post(f"{server.url}/v1/sql", data={"sql": f"{table}; {row}"}, timeout=30).status_code == 200
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace(DEFAULT_ADDRESS, server.url)
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "example.py").write_text("\n".join(blocks), encoding="utf-8")
    printed = _succeed([sys.executable, "example.py"], tmp_path)
    assert "2024-01-01 12:50:00" in printed, "the aggregates of the embedded database"
    assert "readme" in printed, "the rows of the server"
    assert (tmp_path / "cpu.png").read_bytes().startswith(b"\x89PNG")


def _snippet(document: str, language: str, containing: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    for block in re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if containing in block:
            return str(block)
    raise AssertionError(f"{document} has no {language} block with {containing!r}")


@pytest.mark.parametrize("document", ["README.md", "docs/integrations.md"])
def test_addresses_in_the_snippets_are_the_defaults(document: str) -> None:
    """A snippet that is copied must meet a server that was started without options."""
    config = load_config(Component.STANDALONE, environment={}).config
    assert isinstance(config, StandaloneConfig)
    known = {str(config.http.addr), str(config.grpc.addr), str(config.mysql.addr), str(config.postgres.addr)}
    text = (ROOT / document).read_text(encoding="utf-8")
    found = set(re.findall(r"127\.0\.0\.1:\d+", text)) - {"127.0.0.1:5000"}
    assert found <= known
    assert 'bucket = "public"' in _snippet(document, "toml", "influxdb_v2")
    assert "/v1/prometheus/write?db=public" in _snippet(document, "yaml", "remote_write")


def test_links_between_documents_lead_somewhere() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"
