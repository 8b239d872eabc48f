"""Running `tsdb cli`, `demo`, `import` and `export`: in this process, which is quick, or as programs of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx
from click.testing import CliRunner, Result

from tests.server_process import TSDB, ServerProcess
from tsdb.cli._commands import _tree

SECONDS_MAX = 90


def tsdb(server: ServerProcess | str, command: str, *arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run a command against a server; its output is no terminal."""
    return CliRunner(env=_without_settings()).invoke(
        _tree(), _words(server, command, arguments), input=stdin or "", prog_name="tsdb"
    )


def tsdb_process(
    server: ServerProcess | str, command: str, *arguments: str | Path, stdin: int | None = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a command as a program of its own, which Ctrl-C interrupts.

    A shell starts what runs in the background with SIGINT ignored, and programs inherit that: so would this one if the
    tests run in the background, and end only with its work.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    known = _without_settings()
    return subprocess.Popen(
        [*TSDB, *_words(server, command, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if key not in known},
    )


def _words(server: ServerProcess | str, command: str, arguments: tuple[str | Path, ...]) -> list[str]:
    return [command, "--url", server if isinstance(server, str) else server.url, *map(str, arguments)]


def _without_settings() -> dict[str, str | None]:
    return {f"TSDB_{name}": None for name in ("URL", "USER", "PASSWORD", "DATABASE")}


def sql(server: ServerProcess, text: str, database: str = "public") -> list[list[object]]:
    """Ask the server without our client; the rows of the last statement."""
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text, "db": database}, timeout=60)
    assert answer.status_code == 200, answer.text
    last = answer.json()["output"][-1]
    rows: list[list[object]] = last["records"]["rows"] if "records" in last else []
    return rows
