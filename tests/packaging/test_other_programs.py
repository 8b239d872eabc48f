"""Other projects' programs take the files in `deploy/`, and the server is a good first process of a container.

Run by `make packages-check`, which installs what there is for the machine; what is missing is skipped, and said.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.packaging.programs import BASE, DEPLOY, TRIAL, compose
from tests.server_process import TSDB, ServerProcess

SECONDS_MAX = 60.0
EXPOSURE_MAX = 2.0
"""Of `systemd-analyze security`, from 0 (nothing is allowed) to 10."""
KUBERNETES_VERSIONS = ("1.31", "1.36")

pytestmark = pytest.mark.skipif("TSDB_PACKAGES" not in os.environ, reason="run by `make packages-check`")


def program(name: str) -> str:
    path = f"{os.environ['TSDB_PACKAGES']}:{os.environ['PATH']}"
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


@pytest.mark.parametrize("directory", [BASE, TRIAL], ids=lambda directory: directory.name)
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_kubernetes_has_the_fields_of_the_manifests(directory: Path, version: str, tmp_path: Path) -> None:
    text = run(program("kustomize"), "build", str(directory))
    built = tmp_path / "built.yaml"
    built.write_text(text)
    shown = run(program("kubernetes-validate"), "--strict", "-k", version, str(built))
    assert shown.count(" passed ") == len(list(yaml.safe_load_all(text)))


def test_the_dockerfile_has_no_known_mistakes() -> None:
    run(program("hadolint"), str(DEPLOY / "docker" / "Dockerfile"))


def test_compose_takes_the_compose_file() -> None:
    text = run(program("compose-go"), str(DEPLOY / "compose" / "compose.yaml"))
    assert set(yaml.safe_load(text)["services"]) == set(compose()["services"])


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """The executable of the unit is replaced by one that exists."""
    text = (DEPLOY / "systemd" / "tsdb.service").read_text(encoding="utf-8")
    unit = tmp_path / "tsdb.service"
    unit.write_text(text.replace("/opt/tsdb/bin/tsdb", "/bin/true"))
    result = subprocess.run(
        [program("systemd-analyze"), "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    shown = run(program("systemd-analyze"), "security", "--offline=true", str(unit))
    exposure = re.search(r"exposure level for tsdb.service: ([\d.]+)", shown)
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_the_first_process_of_a_container_stops_on_sigterm(tmp_path: Path) -> None:
    """As in a container, the server has process id 1, for which signals without a handler are ignored."""
    unshare = [program("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("namespaces of processes are not allowed here")
    output = tmp_path / "standalone.out"
    addresses = {f"TSDB_STANDALONE__{each}__ADDR": "127.0.0.1:0" for each in ("HTTP", "GRPC", "MYSQL", "POSTGRES")}
    options = (
        "--data-home",
        str(tmp_path / "data"),
        "--log-dir",
        str(tmp_path / "logs"),
        "--opentsdb-addr",
        "127.0.0.1:0",
    )
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [*unshare, *TSDB, "standalone", "start", *options],
            env={**os.environ, **addresses}, stdout=sink, stderr=subprocess.STDOUT,
        )  # fmt: skip
    server = ServerProcess(process, output)
    try:
        server.wait_ready()
        assert server.get("/ready").status_code == 200
        run("kill", "-TERM", _child(process.pid))
        assert process.wait(timeout=SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()
    assert "stopped" in server.output


def _child(parent: int) -> str:
    deadline = time.monotonic() + SECONDS_MAX
    while not (children := Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
        assert time.monotonic() < deadline, "unshare has no child"
        time.sleep(0.05)
    return children[0]
