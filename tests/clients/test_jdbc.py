"""JDBC: PostgreSQL's driver, MySQL's Connector/J and Arrow's Flight SQL driver, in small Java programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import find_driver, port_of, run_program
from tests.server_process import ServerProcess

_PROGRAMS = Path(__file__).parent / "jdbc"
_GIVEN_UP = {"gave up": "yes", "first": "0", "still alive": "2"}
_COLUMNS = "[host, usage_value, hits, is_up, ts]"


def _tour(jar: str, *arguments: str) -> dict[str, str]:
    return _run("Tour", jar, "UTC", *arguments)


def _run(program: str, jar: str, zone: str, *arguments: str) -> dict[str, str]:
    """Run a program with a driver in a time zone; what it says, by what it is about."""
    options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", f"-Duser.timezone={zone}"]
    path = str(find_driver(f"jars/{jar}-*.jar"))
    said = run_program("java", *options, "-cp", path, str(_PROGRAMS / f"{program}.java"), *arguments)
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


_IN_BERLIN = {"read": "[1700000000000, 1720000000000]", "hours": "[23, 11]", "stored": "[1700000000, 1720000000]"}
"""22:13 in winter and 09:46 in summer, in UTC."""


@pytest.mark.parametrize("options", ["", "?preferQueryMode=simple", "?binaryTransfer=true&prepareThreshold=-1"])
def test_the_driver_of_postgresql_brings_the_time_zone_of_java(server: ServerProcess, options: str) -> None:
    address = f"jdbc:postgresql://127.0.0.1:{port_of(server, 'Postgres')}/public{options}"
    assert _run("Zone", "postgresql", "Europe/Berlin", address, "me", "") == _IN_BERLIN


@pytest.mark.parametrize("options", ["", "&useServerPrepStmts=true"])
def test_connector_j_brings_the_time_zone_of_java_when_told_to(server: ServerProcess, options: str) -> None:
    more = f"?allowPublicKeyRetrieval=true&forceConnectionTimeZoneToSession=true{options}"
    address = f"jdbc:mysql://127.0.0.1:{port_of(server, 'MySQL')}/public{more}"
    assert _run("Zone", "mysql-connector-j", "Europe/Berlin", address, "me", "secret") == _IN_BERLIN


def test_the_driver_of_flight_sql_works(server: ServerProcess) -> None:
    address = f"jdbc:arrow-flight-sql://127.0.0.1:{port_of(server, 'gRPC')}/?useEncryption=false"
    said = _tour("flight-sql-jdbc-driver", address, "", "", "public")
    assert {key: said.get(key) for key in _COMMON} == _COMMON
    assert said["tables"] == "[jdbc_tour]"
