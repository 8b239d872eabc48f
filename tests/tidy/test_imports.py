"""What a process imports: a program with an embedded database no server, a server no library for frames."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER_PACKAGES = {
    *("tsdb.servers", "tsdb.config", "tsdb.cli", "tsdb.components.run", "tsdb.components.standalone"),
    *("click", "cryptography", "google.protobuf", "grpc", "opentelemetry", "pydantic", "uvloop"),
}


def _imported(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_an_embedded_database_imports_no_server() -> None:
    imported = _imported("import tsdb\nwith tsdb.connect() as db:\n    db.sql('SELECT 1')")
    assert "tsdb.embedded" in imported
    assert not imported & SERVER_PACKAGES


@pytest.mark.parametrize("module", ["tsdb.components.run", "tsdb.processes.fork_server"])
def test_a_server_process_does_not_import_pandas(module: str) -> None:
    imported = _imported(
        f"from tsdb.quick_imports import quick_imports\nwith quick_imports():\n    import {module}\n"
        "import gc\nimport pyarrow as pa\npa.array([1, 'a'][:1])\nassert gc.isenabled()"
    )
    assert module in imported
    assert "pandas" not in imported


def test_pandas_is_still_there_for_those_who_ask_for_it() -> None:
    imported = _imported(
        "from tsdb.quick_imports import quick_imports\nwith quick_imports():\n    import pyarrow as pa\n"
        "assert len(pa.table({'a': [1, 2]}).to_pandas()) == 2"
    )
    assert "pandas" in imported


@pytest.mark.skipif(sys.platform != "linux", reason="pyarrow may come without jemalloc")
def test_a_server_process_gives_back_memory_of_all_threads() -> None:
    _imported(
        "from tsdb.quick_imports import quick_imports\nwith quick_imports():\n    import pyarrow as pa\n"
        "assert pa.default_memory_pool().backend_name == 'jemalloc'"
    )
