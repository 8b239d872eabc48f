"""Drivers of Java and JavaScript, which bring logins and TLS of their own: the right password, and a wrong one."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path

import pytest

from tests.clients.conftest import PASSWORD, USER, Guarded
from tests.clients.programs import find_driver, port_of, try_program

_TOUR = Path(__file__).parent / "jdbc" / "Tour.java"
_PG = """
const { Client } = require("pg"), fs = require("fs");
const [port, password, ca] = process.argv.slice(1);
const client = new Client({ host: "localhost", port: Number(port), user: "me", password, database: "public",
  ssl: ca ? { ca: fs.readFileSync(ca) } : false });
client.connect().then(() => client.query("SELECT 1 AS one"))
  .then((answer) => (console.log(JSON.stringify(answer.rows)), client.end()))
  .catch((error) => (console.log(JSON.stringify(error.code)), process.exit(0)));
"""
_MYSQL2 = """
const mysql = require("mysql2/promise"), fs = require("fs");
const [port, password, ca] = process.argv.slice(1);
mysql.createConnection({ host: "localhost", port: Number(port), user: "me", password, database: "public",
  ssl: ca ? { ca: fs.readFileSync(ca) } : undefined })
  .then((client) => client.query("SELECT 1 AS one")
    .then(([rows]) => (console.log(JSON.stringify(rows)), client.end())))
  .catch((error) => (console.log(JSON.stringify(error.errno)), process.exit(0)));
"""
_DRIVERS = {
    "postgresql": ("Postgres", "jdbc:postgresql://localhost:{port}/public?sslmode=verify-full&sslrootcert={ca}"),
    "postgresql plain": ("Postgres", "jdbc:postgresql://localhost:{port}/public?sslmode=disable"),
    "mysql-connector-j": ("MySQL", "jdbc:mysql://localhost:{port}/public?sslMode=REQUIRED"),
    "mysql-connector-j plain": (
        "MySQL",
        "jdbc:mysql://localhost:{port}/public?sslMode=DISABLED&allowPublicKeyRetrieval=true",
    ),
    "flight-sql-jdbc-driver": (
        "gRPC",
        "jdbc:arrow-flight-sql://localhost:{port}/?useEncryption=true&disableCertificateVerification=true",
    ),
}


@pytest.mark.parametrize("driver", _DRIVERS)
def test_drivers_of_java_log_in_with_the_right_password_alone(guarded: Guarded, driver: str) -> None:
    protocol, form = _DRIVERS[driver]
    address = form.format(port=port_of(guarded.server, protocol), ca=urllib.parse.quote(str(guarded.authority)))
    jar = find_driver(f"jars/{driver.split()[0]}-*.jar")
    java = ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    program = [*java, "-cp", str(jar), str(_TOUR), address, USER]
    done = try_program(*program, PASSWORD, "public")
    assert done.returncode == 0, done.stderr
    assert "valid: true" in done.stdout.splitlines()
    assert "counted: 20 4.75" in done.stdout.splitlines()
    refused = try_program(*program, "wrong", "public")
    assert refused.returncode != 0
    assert "valid" not in refused.stdout
    assert "SQLException" in refused.stderr


@pytest.mark.parametrize("is_encrypted", [True, False])
@pytest.mark.parametrize(
    ("driver", "protocol", "script", "one", "refusal"),
    [("pg", "Postgres", _PG, "1", "28P01"), ("mysql2", "MySQL", _MYSQL2, 1, 1698)],
)
def test_drivers_of_javascript_log_in_with_the_right_password_alone(
    guarded: Guarded, driver: str, protocol: str, script: str, one: str | int, refusal: str | int, is_encrypted: bool
) -> None:
    modules = {"NODE_PATH": str(find_driver(f"node/node_modules/{driver}").parent)}
    port, authority = port_of(guarded.server, protocol), str(guarded.authority) if is_encrypted else ""
    for password, expected in ((PASSWORD, [{"one": one}]), ("wrong", refusal)):
        done = try_program("node", "-e", script, port, password, authority, environment=modules)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == expected
