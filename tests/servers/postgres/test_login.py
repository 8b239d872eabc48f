"""Who may come in: passwords by SCRAM and as they are, inside TLS and outside, certificates."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pg8000.native
import psycopg
import psycopg2
import pytest
import trustme
from psycopg import errors

from tests.servers.postgres.running import RawClient, RunningServer, error_field, message, running_server
from tsdb.auth import open_authenticator
from tsdb.config import TlsMode
from tsdb.servers import Tls

PROVIDER = "static_user_provider:cmd:u=p,r:ro=p,w:wo=p"
NATIVE_HASH = hashlib.sha1(hashlib.sha1(b"p").digest()).hexdigest()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("guarded"), authenticator=open_authenticator(PROVIDER)) as running:
        yield running


def _pem(directory: Path, authority: trustme.CA, *names: str) -> tuple[str, str]:
    certificate = authority.issue_cert(*names, common_name=names[0])
    chain, key = directory / "server.pem", directory / "server.key"
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    return str(chain), str(key)


def test_every_driver_logs_in_with_the_right_password(guarded: RunningServer) -> None:
    with guarded.connect(user="u", password="p") as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("u",)
    psycopg2.connect(host="127.0.0.1", port=guarded.port, user="u", password="p", dbname="public").close()
    pg8000.native.Connection("u", host="127.0.0.1", port=guarded.port, password="p", database="public").close()


async def test_asyncpg_logs_in_with_the_right_password_only(guarded: RunningServer) -> None:
    where = {"host": "127.0.0.1", "port": guarded.port, "database": "public"}
    connection = await asyncpg.connect(**where, user="u", password="p")
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(**where, user="u", password="wrong")


@pytest.mark.parametrize(("user", "password"), [("u", "wrong"), ("nobody", "p"), ("u", "")])
def test_wrong_passwords_and_unknown_users_are_refused_alike(guarded: RunningServer, user: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        guarded.connect(user=user, password=password or " ")
    assert f'password authentication failed for user "{user}"' in str(caught.value)


def test_a_client_without_a_password_gets_nothing(guarded: RunningServer) -> None:
    with guarded.raw() as client:
        client.log_in_only("u")
        assert client.read()[0] == "R"
        client.send("Q", b"SELECT 1\0")
        found = client.read_until("")
        assert error_field(found[0][1], "S") == "FATAL"


def test_readers_do_not_write_and_writers_do_not_read(guarded: RunningServer) -> None:
    with guarded.connect(user="u", password="p") as connection:
        connection.execute("CREATE TABLE t (i BIGINT, ts TIMESTAMP TIME INDEX)")
    with guarded.connect(user="r", password="p") as connection:
        assert connection.execute("SELECT i FROM t").fetchall() == []
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("INSERT INTO t VALUES (%s, %s)", (1, 1))
    with guarded.connect(user="w", password="p") as connection:
        assert connection.execute("INSERT INTO t VALUES (%s, %s)", (1, 1)).rowcount == 1
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT i FROM t WHERE i = %s", (1,))
        with pytest.raises(errors.InsufficientPrivilege), connection.cursor().copy("COPY t TO STDOUT"):
            pass


def _first(client: RawClient, first: bytes = b"n,,n=,r=abc") -> tuple[str, bytes]:
    """Begin a login by SCRAM and return what the server says to it."""
    client.log_in_only("u")
    client.read()
    client.send("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
    return client.read()


def _proof(challenge: str, password: bytes) -> bytes:
    parts = dict(each.split("=", 1) for each in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    said = f"n=,r=abc,{challenge},c=biws,r={parts['r']}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"c=biws,r={parts['r']},p={base64.b64encode(proof).decode()}".encode()


def test_an_answer_that_was_right_once_is_of_no_use_later(guarded: RunningServer) -> None:
    with guarded.raw() as client:
        challenge = _first(client)[1][4:].decode()
        final = _proof(challenge, b"p")
        client.send("p", final)
        assert client.read_until("Z", "E")[-1] == ("Z", b"I")
    with guarded.raw() as client:
        _first(client)
        client.send("p", final)
        assert error_field(client.read()[1], "S") == "FATAL"


@pytest.mark.parametrize(
    "first", [b"", b"n,,", b"p=tls-unique,,n=,r=abc", b"n,,r=abc", b"n,,n=,r=", b"x,,n=,r=a", b"\xff"]
)
def test_malformed_scram_messages_are_refused(guarded: RunningServer, first: bytes) -> None:
    with guarded.raw() as client:
        tag, body = _first(client, first)
        assert (tag, error_field(body, "C")) == ("E", "08P01")


@pytest.mark.parametrize("final", [b"", b"c=biws", b"c=biws,r=abc,p=AAAA", b"c=bad,r=abc,p=!!"])
def test_malformed_proofs_are_refused(guarded: RunningServer, final: bytes) -> None:
    with guarded.raw() as client:
        _first(client)
        client.send("p", final)
        assert error_field(client.read()[1], "S") == "FATAL"


def test_unknown_users_get_the_same_salt_each_time(guarded: RunningServer) -> None:
    salts = set()
    for _ in range(2):
        with guarded.raw() as client:
            client.log_in_only("nobody")
            client.read()
            first = b"n,,n=,r=abc"
            client.send("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
            salts.add(client.read()[1].split(b",s=")[1])
    assert len(salts) == 1


def test_tls_is_used_where_it_is_offered_and_demanded_where_it_is_required(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain, key = _pem(tmp_path, authority, "127.0.0.1")
    root = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(root))
    for mode in (TlsMode.PREFER, TlsMode.REQUIRE):
        tls = Tls(mode, cert_path=chain, key_path=key)
        with running_server(tmp_path / mode, tls=tls, authenticator=open_authenticator(PROVIDER)) as running:
            with running.connect(user="u", password="p", sslmode="verify-full", sslrootcert=str(root)) as connection:
                assert connection.pgconn.ssl_in_use
                rows = connection.execute("SELECT repeat('x', 1000) FROM generate_series(1, 5000)").fetchall()
                assert len(rows) == 5000
            if mode is TlsMode.PREFER:
                running.connect(user="u", password="p", sslmode="disable").close()
            else:
                with pytest.raises(psycopg.OperationalError, match="No encryption"):
                    running.connect(user="u", password="p", sslmode="disable")


async def test_asyncpg_and_pg8000_speak_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain, key = _pem(tmp_path, authority, "127.0.0.1")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    tls = Tls(TlsMode.REQUIRE, cert_path=chain, key_path=key)
    with running_server(tmp_path / "data", tls=tls) as running:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=running.port, user="me", database="public", ssl=context
        )
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        native = pg8000.native.Connection(
            "me", host="127.0.0.1", port=running.port, database="public", ssl_context=context
        )
        assert native.run("SELECT 1") == [[1]]
        native.close()


def test_a_secret_that_scram_cannot_serve_is_asked_for_inside_tls_only(tmp_path: Path) -> None:
    chain, key = _pem(tmp_path, trustme.CA(), "127.0.0.1")
    provider = f"static_user_provider:cmd:u=mysql_native_password:{NATIVE_HASH}"
    tls = Tls(TlsMode.PREFER, cert_path=chain, key_path=key)
    with running_server(tmp_path / "data", tls=tls, authenticator=open_authenticator(provider)) as running:
        running.connect(user="u", password="p", sslmode="require").close()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            running.connect(user="u", password="wrong", sslmode="require")
        with pytest.raises(psycopg.OperationalError, match="No encryption"):
            running.connect(user="u", password="p", sslmode="disable")


def test_clients_show_certificates_where_a_ca_verifies_them(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain, key = _pem(tmp_path, authority, "127.0.0.1")
    root = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(root))
    own = tmp_path / "client"
    own.mkdir()
    own_chain, own_key = _pem(own, authority, "alice.example")
    Path(own_key).chmod(0o600)
    tls = Tls(TlsMode.VERIFY_FULL, cert_path=chain, key_path=key, ca_cert_path=str(root))
    options = {"sslmode": "require", "sslcert": own_chain, "sslkey": own_key}
    with running_server(tmp_path / "data", tls=tls) as running:
        running.connect(user="alice.example", **options).close()
        with pytest.raises(psycopg.OperationalError, match="certificate authentication failed"):
            running.connect(user="bob", **options)
        with pytest.raises(psycopg.OperationalError):
            running.connect(user="alice.example", sslmode="require", sslcert="", sslkey="")


def test_a_new_certificate_is_used_by_new_connections(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    chain, key = _pem(tmp_path, first, "127.0.0.1")
    root = tmp_path / "second.pem"
    second.cert_pem.write_to_path(str(root))
    tls = Tls(TlsMode.REQUIRE, cert_path=chain, key_path=key)
    with running_server(tmp_path / "data", tls=tls) as running, running.connect(sslmode="require") as kept:
        _pem(tmp_path, second, "127.0.0.1", "another.example")
        running.connect(sslmode="verify-ca", sslrootcert=str(root)).close()
        assert kept.execute("SELECT 1").fetchone() == (1,)


def test_bytes_before_the_handshake_are_not_taken_for_encrypted_ones(tmp_path: Path) -> None:
    chain, key = _pem(tmp_path, trustme.CA(), "127.0.0.1")
    tls = Tls(TlsMode.PREFER, cert_path=chain, key_path=key)
    with running_server(tmp_path / "data", tls=tls) as running, running.raw() as client:
        client.socket.sendall(struct.pack("!ii", 8, 80877103) + message("Q", b"SELECT 1\0"))
        assert error_field(client.read()[1], "C") == "08P01"


def test_a_handshake_that_fails_ends_the_connection(tmp_path: Path) -> None:
    chain, key = _pem(tmp_path, trustme.CA(), "127.0.0.1")
    with running_server(tmp_path / "data", tls=Tls(TlsMode.PREFER, cert_path=chain, key_path=key)) as running:
        with running.raw() as client:
            client.send_startup(80877103)
            assert client.read_byte() == b"S"
            client.socket.sendall(b"this is no handshake at all, not even close")
            client.read_until("")
        running.connect(sslmode="require").close()
