"""JDBC: PostgreSQL's driver, MySQL's Connector/J and Arrow's Flight SQL driver, in one small Java program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clients.programs import find_driver, port_of, run_program
from tests.server_process import ServerProcess

_TOUR = Path(__file__).parent / "jdbc" / "Tour.java"
_GIVEN_UP = {"gave up": "yes", "first": "0", "still alive": "2"}
_COLUMNS = "[host, usage_value, hits, is_up, ts]"


def _tour(jar: str, *arguments: str) -> dict[str, str]:
    """Run the program with a driver; what it says, by what it is about."""
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    path = os.pathsep.join([str(find_driver(f"jars/{jar}-*.jar"))])
    said = run_program("java", *options, "-cp", path, str(_TOUR), *arguments)
    return dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)


_COMMON = {
    "valid": "true",
    "inserted": "20",
    "rows": "24",
    "row": "host'19 4.75 false 1700000000019",
    "counted": "20 4.75",
    "alive": "1",
}


@pytest.mark.parametrize("options", ["", "?preferQueryMode=simple", "?binaryTransfer=true&prepareThreshold=1"])
def test_the_driver_of_postgresql_works(server: ServerProcess, options: str) -> None:
    address = f"jdbc:postgresql://127.0.0.1:{port_of(server, 'Postgres')}/public{options}"
    assert _tour("postgresql", address, "me", "", "public") == _COMMON | _GIVEN_UP | {
        "product": "PostgreSQL",
        "tables": "[jdbc_tour]",
        "columns": _COLUMNS,
        "keys": "[host, ts]",
        "schemas": "true",
        "types": "true",
        "refused": "42P01",
    }


@pytest.mark.parametrize("options", ["", "?useServerPrepStmts=true&rewriteBatchedStatements=true&useCursorFetch=true"])
def test_connector_j_works(server: ServerProcess, options: str) -> None:
    more = f"{options or '?'}&allowPublicKeyRetrieval=true".replace("?&", "?")
    address = f"jdbc:mysql://127.0.0.1:{port_of(server, 'MySQL')}/public{more}"
    assert _tour("mysql-connector-j", address, "me", "secret", "public") == _COMMON | _GIVEN_UP | {
        "product": "MySQL",
        "tables": "[jdbc_tour]",
        "columns": _COLUMNS,
        "keys": "[host, ts]",
        "schemas": "true",
        "types": "true",
        "refused": "42S02",
    }


def test_the_driver_of_flight_sql_works(server: ServerProcess) -> None:
    address = f"jdbc:arrow-flight-sql://127.0.0.1:{port_of(server, 'gRPC')}/?useEncryption=false"
    said = _tour("flight-sql-jdbc-driver", address, "", "", "public")
    assert {key: said.get(key) for key in _COMMON} == _COMMON
    assert said["tables"] == "[jdbc_tour]"
