"""The commands of README.md and docs/ run: against a server started as they say, or as targets that exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import TSDB, ServerProcess, running

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
    with running("standalone", tmp_path_factory.mktemp("readme")) as started:
        yield started


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_commands_run_one_after_the_other(document: str, server: ServerProcess) -> None:
    for found, command in _commands():
        if found == document:
            _run(command, server)


def _run(command: str, server: ServerProcess) -> None:
    words = shlex.split(command)
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[1]}:", makefile, flags=re.MULTILINE), f"the Makefile has no target {words[1]}"
        return
    if words[0] == "tsdb":
        result = subprocess.run([*TSDB, *words[1:]], capture_output=True, text=True, timeout=30)
        assert result.returncode == 0, result.stderr
        return
    assert words[0] == "curl", f"this test does not know how to run {command!r}"
    assert shutil.which("curl"), "curl is needed to try the documented commands"
    words = [word.replace(DEFAULT_ADDRESS, server.url) for word in words]
    result = subprocess.run([*words, "--fail", "--silent"], capture_output=True, text=True, timeout=30, env=os.environ)
    assert result.returncode == 0, result.stderr


def test_readme_names_the_two_commands() -> None:
    commands = [command for document, command in _commands() if document == "README.md"]
    assert {"make run", "make test"} <= set(commands)


def test_links_between_documents_lead_somewhere() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"
