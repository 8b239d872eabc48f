"""The options of a frontend as users set them: TLS on every port, users, the dashboard; with other people's drivers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pymysql
import pytest
import trustme
from pyarrow import flight

from tests.cluster.running import WAIT_SECONDS_MAX, Cluster, wait_for
from tests.kv.etcd_process import free_port
from tests.server_process import ServerProcess, running
from tests.servers.grpc.flight.clients import ask

pytestmark = pytest.mark.timeout(600)

ROOT, SECRET = "root", "hunter2-is-the-password"


@dataclass(frozen=True)
class Secured:
    """A frontend that speaks TLS only."""

    server: ServerProcess
    ca: str
    mysql_port: int
    postgres_port: int

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def ask(self, text: str, auth: tuple[str, str] | None = (ROOT, SECRET)) -> httpx.Response:
        return httpx.post(
            f"{self.server.url}/v1/sql", data={"sql": text}, auth=auth, verify=self.context, timeout=WAIT_SECONDS_MAX
        )

    def sql(self, text: str, auth: tuple[str, str] = (ROOT, SECRET)) -> Any:
        answer = self.ask(text, auth)
        assert answer.status_code == 200, (text, answer.text)
        output = answer.json()["output"][-1]
        return output["records"]["rows"] if "records" in output else output["affectedrows"]

    def postgres(self, user: str, password: str, mode: str = "verify-full") -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.postgres_port,
            user=user,
            password=password,
            dbname="public",
            sslmode=mode,
            sslrootcert=self.ca if mode == "verify-full" else "",
            autocommit=True,
        )

    def mysql(self, user: str, password: str, *, has_tls: bool = True) -> pymysql.Connection:  # type: ignore[type-arg]
        return pymysql.connect(
            host="127.0.0.1",
            port=self.mysql_port,
            user=user,
            password=password,
            database="public",
            ssl=self.context if has_tls else None,
            ssl_disabled=not has_tls,
        )


@pytest.fixture(scope="module")
def secured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One more frontend of the cluster, started with its options on the command line as far as it has them."""
    home = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    paths = {name: str(home / f"{name}.pem") for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.cert_chain_pems[0].write_to_path(paths["cert"])
    issued.private_key_pem.write_to_path(paths["key"])
    mysql_port, postgres_port = free_port(), free_port()
    options = {
        "metasrv-addr": cluster.frontends[0].environment["TSDB_FRONTEND__META_CLIENT__METASRV_ADDRS"],
        "mysql-addr": f"127.0.0.1:{mysql_port}",
        "postgres-addr": f"127.0.0.1:{postgres_port}",
        "tls-mode": "require",
        "tls-cert-path": paths["cert"],
        "tls-key-path": paths["key"],
        "user-provider": f"catalog_user_provider:cmd:{ROOT}={SECRET}",
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    environment = {
        f"TSDB_FRONTEND__{section}__TLS__{key}": value
        for section in ("HTTP", "GRPC")
        for key, value in {"MODE": "require", "CERT_PATH": paths["cert"], "KEY_PATH": paths["key"]}.items()
    }
    with running("frontend", home, "--disable-dashboard", *arguments, environment=environment) as server:
        yield Secured(server, paths["ca"], mysql_port, postgres_port)
        assert server.stop() == 0
    assert "Traceback" not in server.output
    assert SECRET not in server.output


def test_every_port_of_a_frontend_speaks_tls_and_asks_for_a_password(secured: Secured) -> None:
    assert secured.server.url.startswith("https://")
    assert secured.sql("CREATE TABLE guarded (ts TIMESTAMP TIME INDEX, v BIGINT)") == 0
    with secured.mysql(ROOT, SECRET) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO guarded VALUES (1, 7), (2, 8)")
        assert connection._sock.version().startswith("TLSv1.")
    with secured.postgres(ROOT, SECRET) as session:
        assert session.pgconn.ssl_in_use
        assert session.execute("SELECT sum(v) FROM guarded").fetchall() == [(15,)]
    pem = Path(secured.ca).read_bytes()
    address = f"grpc+tls://127.0.0.1:{secured.server.port_of('gRPC')}"
    with flight.connect(address, tls_root_certs=pem) as client:
        login = flight.FlightCallOptions(headers=[client.authenticate_basic_token(ROOT, SECRET)])
        assert ask(client, "SELECT v FROM guarded ORDER BY ts", login)["v"].to_pylist() == [7, 8]
    secured.sql("DROP TABLE guarded")


def test_plain_text_and_wrong_passwords_are_refused(secured: Secured) -> None:
    with pytest.raises(pymysql.err.OperationalError) as refused:
        secured.mysql(ROOT, SECRET, has_tls=False)
    assert refused.value.args[0] in (1045, 3159)
    with pytest.raises(psycopg.OperationalError):
        secured.postgres(ROOT, SECRET, mode="disable")
    plain = httpx.get(secured.server.url.replace("https://", "http://") + "/v1/sql?sql=SELECT+1", timeout=30)
    assert (plain.status_code, plain.text) == (400, "this port speaks TLS only.\n")
    assert secured.ask("SELECT 1", None).status_code == 401
    assert secured.ask("SELECT 1", (ROOT, "wrong")).status_code == 401
    with pytest.raises(pymysql.err.OperationalError):
        secured.mysql(ROOT, "wrong")
    with pytest.raises(psycopg.OperationalError):
        secured.postgres(ROOT, "wrong")


def test_a_user_who_is_created_on_a_frontend_logs_in_with_every_driver(secured: Secured, cluster: Cluster) -> None:
    """The frontend without a provider creates her, since users are in the metadata of the cluster."""
    cluster.sql("CREATE USER eve IDENTIFIED BY 'a-password'")
    try:
        wait_for(lambda: "eve" in {row[0] for row in secured.sql("SHOW USERS")})
        refused = secured.ask("SELECT 1", ("eve", "a-password"))
        assert (refused.status_code, refused.json()["code"]) == (403, 7006)
        secured.sql("GRANT ALL ON public.* TO eve")
        assert secured.sql("SELECT 1", ("eve", "a-password")) == [[1]]
        with secured.mysql("eve", "a-password") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE hers (ts TIMESTAMP TIME INDEX)")
        with secured.postgres("eve", "a-password") as session:
            assert session.execute("SELECT count(*) FROM hers").fetchall() == [(0,)]
    finally:
        cluster.sql("DROP TABLE IF EXISTS hers")
        cluster.sql("DROP USER eve")


def test_the_dashboard_is_served_unless_it_is_disabled(secured: Secured, cluster: Cluster) -> None:
    with httpx.Client(verify=secured.context, timeout=WAIT_SECONDS_MAX) as client:
        for path in ("/dashboard", "/dashboard/"):
            assert client.get(secured.server.url + path, auth=(ROOT, SECRET)).status_code == 404
    assert httpx.get(f"{cluster.url}/dashboard/", timeout=WAIT_SECONDS_MAX).status_code != 404
