"""One server for the tests that do not change how it is set up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.postgres.running import RunningServer, running_server


@pytest.fixture(scope="package")
def pg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory: Path = tmp_path_factory.mktemp("postgres")
    with running_server(directory) as running:
        with running.connect() as connection:
            connection.execute(
                "CREATE TABLE kinds (host STRING PRIMARY KEY, i BIGINT, f DOUBLE, b BOOLEAN, d DATE, y BINARY,"
                " s STRING, n DECIMAL(10, 2), u BIGINT UNSIGNED, i4 INT, i2 SMALLINT, f4 FLOAT, j JSON,"
                " ts TIMESTAMP(6) TIME INDEX)"
            )
            connection.execute("CREATE TABLE counted (k STRING PRIMARY KEY, i BIGINT, ts TIMESTAMP TIME INDEX)")
            rows = ", ".join(f"('k{n % 10}', {n}, {n})" for n in range(1000))
            connection.execute(f"INSERT INTO counted VALUES {rows}")
        yield running
