"""The walk-through of docs/cluster.md by hand: its commands as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from tests.cluster.running import WAIT_SECONDS_MAX, wait_for
from tests.kv.etcd_process import EtcdProcess, free_port
from tests.server_process import TSDB, ServerProcess
from tests.store.services import BUCKET, S3Server
from tsdb.cli._commands import _tree

pytestmark = pytest.mark.timeout(900)
slow = pytest.mark.skipif(os.environ.get("TSDB_CLUSTER") != "all", reason="run by `make failures`")

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    """The first block of code of the page in a language that contains a text."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return next(each for each in found if containing in each)


def read_walk_through() -> tuple[dict[str, str], list[list[str]]]:
    """The files that it writes, by name, and its commands, each as the arguments of `tsdb`."""
    text = block("bash", "tsdb metasrv start")
    heredoc = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", flags=re.MULTILINE | re.DOTALL)
    files = dict(heredoc.findall(text))
    lines = heredoc.sub("", text).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.strip()]
    assert all(command[0] == "tsdb" for command in commands), commands
    return files, [command[1:] for command in commands]


def test_its_commands_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config` takes the arguments of `start`, reports every problem, and ends."""
    monkeypatch.chdir(tmp_path)
    files, commands = read_walk_through()
    for name, text in files.items():
        Path(name).write_text(text)
    assert [command[:2] for command in commands] == [
        ["metasrv", "start"],
        ["datanode", "start"],
        ["datanode", "start"],
        ["frontend", "start"],
    ]
    for component, _, *arguments in commands:
        done = CliRunner().invoke(_tree(), [component, "config", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output


def test_its_settings_for_etcd_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "metasrv.toml"
    file.write_text(block("toml", "store_addr"))
    done = CliRunner().invoke(_tree(), ["metasrv", "config", "-c", str(file)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert 'store_password = "******"' in done.output


@slow
def test_it_starts_a_cluster(tmp_path: Path, etcd: EtcdProcess, s3: S3Server) -> None:
    """With other ports, and the service of this test for the bucket."""
    files, commands = read_walk_through()
    ports = {
        port: free_port() for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", block("bash", "tsdb metasrv"))))
    }
    ports["2379"] = etcd.client_port

    def replaced(text: str) -> str:
        return re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", text)

    for name, text in files.items():
        (tmp_path / name).write_text(replaced(text.replace('"metrics"', f'"{BUCKET}"')))
    metasrv = f"127.0.0.1:{ports['3002']}"
    environment = {
        **os.environ,
        "TSDB_METASRV__BIND_ADDR": metasrv,
        "TSDB_METASRV__SERVER_ADDR": metasrv,
        "TSDB_METASRV__DATA_HOME": str(tmp_path / "metasrv"),
        "TSDB_DATANODE__STORAGE__ENDPOINT": s3.endpoint,
        "TSDB_DATANODE__STORAGE__ROOT": s3.new_root(),
        **{f"TSDB_FRONTEND__{name}__ADDR": "127.0.0.1:0" for name in ("HTTP", "GRPC", "MYSQL", "POSTGRES", "OPENTSDB")},
        **{f"TSDB_{name}__LOGGING__DIR": str(tmp_path / "logs") for name in ("METASRV", "DATANODE", "FRONTEND")},
    }
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            output = tmp_path / f"{number}.out"
            sink = stack.enter_context(output.open("wb"))
            process = subprocess.Popen(
                [*TSDB, *map(replaced, command)], env=environment, cwd=tmp_path, stdout=sink, stderr=subprocess.STDOUT
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            server = ServerProcess(process, output)
            server.wait_ready(WAIT_SECONDS_MAX)
        statements = [each.strip() for each in block("sql", "CREATE TABLE cpu").split(";") if each.strip()]

        def ask(statement: str) -> httpx.Response:
            return httpx.post(f"{server.url}/v1/sql", data={"sql": statement}, timeout=WAIT_SECONDS_MAX)

        wait_for(lambda: ask("SELECT 1").status_code == 200)
        answers = [ask(statement) for statement in statements]
        assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
        rows = answers[-1].json()["output"][0]["records"]["rows"]
        assert {row[1] for row in rows} == {1, 2}
        assert len(rows) == 3
