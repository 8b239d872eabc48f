"""The wheel of `make wheel` works in a new environment where nothing can be compiled; run by `make wheel-test`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import httpx
import pytest

from tests.packaging.test_sdist import SITE, source_files
from tests.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 900
FIRST_QUERY_SECONDS_MAX = 60
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = [
    pytest.mark.skipif(os.environ.get("TSDB_WHEEL") != "all", reason="run by `make wheel-test`"),
    pytest.mark.timeout(INSTALL_SECONDS_MAX + 300),
]


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted((ROOT / "dist").glob("*.whl"))
    assert len(found) == 1, "run `make wheel`"
    return found[0]


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def test_the_name_says_what_it_runs_on(wheel: Path) -> None:
    assert re.search(r"-cp311-abi3-(manylinux_2_\d+|macosx_\d+_\d+)_\w+\.whl$", wheel.name), wheel.name


def test_symbols_of_the_kernels_are_those_that_the_name_promises(wheel: Path, tmp_path: Path) -> None:
    promised = re.search(r"manylinux_2_(\d+)", wheel.name)
    if promised is None or shutil.which("objdump") is None:
        pytest.skip("needs a wheel for Linux, and objdump")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.extract("tsdb/_kernels.abi3.so", tmp_path)
    symbols = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    needed = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols))
    assert needed <= int(promised[1])
    assert "PyInit__kernels" in symbols


def test_it_has_the_package_and_nothing_else(names: set[str]) -> None:
    assert source_files("tsdb") | {"tsdb/_kernels.abi3.so"} <= names
    assert {name.split("/")[0] for name in names} - {"tsdb"} == {
        name.split("/")[0] for name in names if ".dist-info/" in name
    }
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_it_has_the_dashboard(names: set[str]) -> None:
    built = [path for path in (ROOT / SITE).rglob("*") if path.is_file()]
    if not built and shutil.which("npm") is None:
        pytest.skip("the dashboard was not built before, and there is no npm to build it")
    assert ROOT / SITE / "index.html" in built, "run `make wheel`, which builds the dashboard"
    assert {str(path.relative_to(ROOT)) for path in built} <= names


def test_its_metadata_is_complete(wheel: Path, names: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in names if each.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["License-Expression"]) == ("tsdb-server", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"]
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload().startswith("# tsdb\n")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], float]:
    """The `bin` of a new environment with the wheel, the variables to use it, and when it was ready."""
    programs, variables = _environment(tmp_path_factory.mktemp("clean"))
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    for arguments in (["--require-hashes", "-r", str(ROOT / "requirements" / "run.lock")], ["--no-deps", str(wheel)]):
        subprocess.run([*pip, *arguments], env=variables, cwd=programs.parent, check=True, timeout=INSTALL_SECONDS_MAX)
    return programs, variables, time.monotonic()


def _environment(home: Path) -> tuple[Path, dict[str, str]]:
    """Create an environment without tools that compile; return its `bin` and the variables to use it."""
    venv.create(home / "venv", with_pip=True)
    programs = home / "venv" / "bin"
    passed = {
        key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "HTTP", "http", "LANG"))
    }
    variables = {**passed, "HOME": str(Path.home()), "PATH": str(programs)}
    assert [shutil.which(program, path=variables["PATH"]) for program in ("cargo", "rustc", "npm", "node")] == [
        None
    ] * 4
    return programs, variables


def test_its_dependencies_agree(installed: tuple[Path, dict[str, str], float]) -> None:
    programs, variables, _ = installed
    subprocess.run([str(programs / "python"), "-m", "pip", "check"], env=variables, check=True, timeout=120)


def test_it_serves_writes_and_queries(installed: tuple[Path, dict[str, str], float], tmp_path: Path) -> None:
    programs, variables, ready = installed
    started = time.monotonic()
    server = _start(programs, variables, tmp_path)
    try:
        server.wait_ready()
        assert _sql(server, "SELECT 1") == [[1]]
        answered = time.monotonic()
        print(f"\nfirst query {answered - started:.1f} s after the start, {answered - ready:.1f} s after `pip install`")
        assert answered - started < FIRST_QUERY_SECONDS_MAX
        _use(server)
        if (programs.parent / "lib" / f"python{_VERSION}" / "site-packages" / SITE / "index.html").exists():
            page = server.get("/dashboard/")
            assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
        subprocess.run(
            [str(programs / "tsdb"), "demo", "--hours", "0.2", "-q", "--url", server.url],
            env=variables, check=True, timeout=120,
        )  # fmt: skip
        assert _sql(server, "SELECT count(*) > 0 FROM host_metrics") == [[True]]
        shell = [str(programs / "tsdb"), "cli", "--url", server.url, "-e", "SELECT max(usage) FROM cpu"]
        assert (
            "0.7"
            in subprocess.run(shell, env=variables, check=True, timeout=120, capture_output=True, text=True).stdout
        )
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    assert "Traceback" not in server.output


def test_a_plain_pip_install_of_the_wheel_serves(wheel: Path, tmp_path: Path) -> None:
    """As people install it: pip chooses the versions of the dependencies."""
    programs, variables = _environment(tmp_path)
    began = time.monotonic()
    subprocess.run(
        [str(programs / "pip"), "install", str(wheel)],
        env=variables, cwd=tmp_path, check=True, timeout=INSTALL_SECONDS_MAX, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    installed = time.monotonic()
    subprocess.run([str(programs / "pip"), "check"], env=variables, check=True, timeout=120)
    started = time.monotonic()
    server = _start(programs, variables, tmp_path)
    try:
        server.wait_ready()
        assert _sql(server, "SELECT 1") == [[1]]
        answered = time.monotonic()
        print(f"\n`pip install` took {installed - began:.1f} s, the first query {answered - started:.1f} s more")
        assert answered - started < FIRST_QUERY_SECONDS_MAX
        _use(server)
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    assert "Traceback" not in server.output


def _start(programs: Path, variables: dict[str, str], directory: Path) -> ServerProcess:
    output = directory / "standalone.out"
    addresses = {
        f"TSDB_STANDALONE__{each}__ADDR": "127.0.0.1:0" for each in ("HTTP", "GRPC", "MYSQL", "POSTGRES", "OPENTSDB")
    }
    command = [
        str(programs / "tsdb"),
        "standalone",
        "start",
        "--data-home",
        str(directory / "data"),
        "--log-dir",
        str(directory / "logs"),
    ]
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, env={**variables, **addresses}, stdout=sink, stderr=subprocess.STDOUT, cwd=directory
        )
    return ServerProcess(process, output)


def _use(server: ServerProcess) -> None:
    """Write over two protocols, and read with SQL and PromQL."""
    written = httpx.post(f"{server.url}/v1/influxdb/write?db=public", content="cpu,host=a usage=0.5", timeout=60)
    assert written.status_code == 204, written.text
    _sql(server, "CREATE TABLE disk (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, used DOUBLE)")
    _sql(server, "INSERT INTO disk VALUES ('a', now(), 0.25)")
    httpx.post(f"{server.url}/v1/influxdb/write?db=public", content="cpu,host=b usage=0.7", timeout=60)
    assert _sql(server, "SELECT host, usage FROM cpu ORDER BY host") == [["a", 0.5], ["b", 0.7]]
    answer = httpx.get(f"{server.url}/v1/prometheus/api/v1/query", params={"query": "sum(disk)"}, timeout=60).json()
    assert answer["data"]["result"][0]["value"][1] == "0.25"


def _sql(server: ServerProcess, text: str) -> list[list[object]]:
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60)
    assert answer.status_code == 200, answer.text
    output = answer.json()["output"][0]
    rows: list[list[object]] = output.get("records", {}).get("rows", [])
    return rows
