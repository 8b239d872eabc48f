"""Who gets in: passwords by every plugin, TLS in every mode, and nobody else."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
import trustme

from tests.servers.mysql.raw_client import CAPABILITIES, RawClient, errno_of, login_packet
from tests.servers.mysql.served import SECONDS_MAX, Served, serving
from tsdb.config import TlsMode
from tsdb.errors import StartError
from tsdb.servers import Tls

SALT = b"0123456789abcdef"
HASHED = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 1000).hex()
PLAIN_USERS = "static_user_provider:cmd:me=secret,reader:ro=secret,writer:wo=secret"
HASHED_USERS = f"{PLAIN_USERS},hashed=pbkdf2_sha256:1000:{SALT.hex()}:{HASHED}"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("mysql"), user_provider=HASHED_USERS) as served:
        yield served


def _refusal(server: Served, user: str, password: str, **options: Any) -> tuple[int, str]:
    with pytest.raises(pymysql.err.MySQLError) as failure:
        server.connect(user, password, **options)
    return failure.value.args[0], failure.value.args[1]


def test_the_right_password_gets_in(server: Served) -> None:
    assert server.fetch("SELECT USER()", user="me") == (("me",),)


@pytest.mark.parametrize(("user", "password"), [("me", "wrong"), ("me", ""), ("nobody", "secret"), ("nobody", "")])
def test_everything_else_is_refused_with_the_same_error(tmp_path: Path, user: str, password: str) -> None:
    with serving(tmp_path, user_provider=PLAIN_USERS) as server:
        errno, message = _refusal(server, user, password)
    assert errno == 1698
    assert message == f'Authenticate failed, user: "{user}", auth_plugin: "caching_sha2_password"'


def test_a_refused_client_cannot_go_on(tmp_path: Path) -> None:
    with serving(tmp_path, user_provider=PLAIN_USERS) as server, RawClient(server.port, logs_in=False) as client:
        client.send(login_packet(b"me"), 1)
        assert client.read()[:1] == b"\xfe"
        client.send(b"x" * 20, 3)
        assert errno_of(client.read()) == 1698
        assert client.read() == b""


def test_a_password_that_is_stored_hashed_is_sent_encrypted_without_tls(server: Served) -> None:
    assert server.fetch("SELECT USER()", user="hashed") == (("hashed",),)
    assert _refusal(server, "hashed", "wrong")[0] == 1698


def test_mysql_connector_logs_in_by_its_own_choice_of_plugin(server: Served) -> None:
    for plugin in ("mysql_native_password", "caching_sha2_password", None):
        options = {} if plugin is None else {"auth_plugin": plugin}
        connection = mysql.connector.connect(
            host="127.0.0.1",
            port=server.port,
            user="me",
            password="secret",
            use_pure=True,
            ssl_disabled=True,
            connection_timeout=SECONDS_MAX,
            **options,
        )
        connection.cmd_change_user("reader", "secret", "public")
        connection.cmd_query("SELECT 1")
        connection.get_rows()
        connection.close()


def test_an_answer_cannot_be_replayed(server: Served) -> None:
    with RawClient(server.port, logs_in=False) as client:
        challenge = client.greeting.split(b"\x00", 1)[1]
        challenge = challenge[4:12] + challenge[31:43]
        stored = hashlib.sha1(hashlib.sha1(b"secret").digest()).digest()
        mask = hashlib.sha1(challenge + stored).digest()
        answer = bytes(a ^ b for a, b in zip(hashlib.sha1(b"secret").digest(), mask, strict=True))
    with RawClient(server.port, logs_in=False) as client:
        head, plugin = login_packet(b"me")[:35], b"public\x00mysql_native_password\x00"
        client.send(head + b"\x14" + answer + plugin, 1)
        assert client.read()[:1] == b"\xfe", "a plugin that was not announced gets a challenge of its own"
        client.send(answer, 3)
        assert errno_of(client.read()) == 1698


def test_rights_are_checked_before_statements_run(server: Served) -> None:
    server.fetch("CREATE TABLE IF NOT EXISTS t (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    with server.connect("reader") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM t")
        with pytest.raises(pymysql.err.OperationalError) as failure:
            cursor.execute("INSERT INTO t VALUES (1, 1.0)")
        assert failure.value.args[0] == 1045
    with server.connect("writer") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1, 1.0)")
        with pytest.raises(pymysql.err.OperationalError) as failure:
            cursor.execute("SELECT * FROM t")
        assert failure.value.args[0] == 1045


def test_a_malformed_answer_to_the_greeting_ends_the_connection(server: Served) -> None:
    broken = (
        b"\x01",
        login_packet()[:33],
        login_packet(capabilities=CAPABILITIES & ~0x200),
        login_packet(capabilities=CAPABILITIES | 1 << 21)[:36] + b"\xfe" + b"\xff" * 8,
        login_packet(b"\xff\xfe"),
    )
    for packet in broken:
        with RawClient(server.port, logs_in=False) as client:
            client.send(packet, 1)
            answer = client.read()
            assert not answer or answer[:1] in (b"\xff", b"\xfe")
            if answer[:1] == b"\xff":
                assert client.read() == b""


# TLS ----------------------------------------------------------------------------------------------------------------


def _tls(mode: TlsMode, directory: Path, authority: trustme.CA, *, has_ca: bool = False) -> Tls:
    certificate = authority.issue_cert("127.0.0.1")
    cert, key, ca = directory / "cert.pem", directory / "key.pem", directory / "ca.pem"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    return Tls(mode, cert_path=str(cert), key_path=str(key), ca_cert_path=str(ca) if has_ca else "")


def _context(authority: trustme.CA, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


def test_tls_is_offered_and_plain_text_is_accepted_with_prefer(tmp_path: Path, authority: trustme.CA) -> None:
    tls = _tls(TlsMode.PREFER, tmp_path, authority)
    with serving(tmp_path, tls=tls, user_provider=HASHED_USERS) as server:
        for user in ("me", "hashed"):
            assert server.fetch("SELECT 1", user=user, ssl=_context(authority)) == ((1,),)
            assert server.fetch("SELECT 1", user=user, ssl_disabled=True) == ((1,),)
        with server.connect(ssl=_context(authority)) as connection, connection.cursor() as cursor:
            assert connection._secure
            cursor.execute("SELECT number FROM numbers LIMIT 100000")
            assert len(cursor.fetchall()) == 100_000


@pytest.mark.parametrize("mode", [TlsMode.REQUIRE, TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL])
def test_plain_text_is_refused_when_tls_is_required(tmp_path: Path, authority: trustme.CA, mode: TlsMode) -> None:
    with serving(tmp_path, tls=_tls(mode, tmp_path, authority)) as server:
        assert server.fetch("SELECT 1", ssl=_context(authority)) == ((1,),)
        errno, message = _refusal(server, "me", "secret", ssl_disabled=True)
        assert (errno, "TLS" in message) == (3159, True)


def test_clients_must_show_a_certificate_of_the_ca(tmp_path: Path, authority: trustme.CA) -> None:
    stranger = trustme.CA().issue_cert("me", common_name="me")
    known = authority.issue_cert("other", common_name="other")
    with serving(tmp_path, tls=_tls(TlsMode.VERIFY_CA, tmp_path, authority, has_ca=True)) as server:
        assert server.fetch("SELECT 1", ssl=_context(authority, known)) == ((1,),)
        for certificate in (None, stranger):
            with pytest.raises((pymysql.err.MySQLError, OSError)):
                server.fetch("SELECT 1", ssl=_context(authority, certificate))


def test_a_certificate_must_be_in_the_name_of_the_user(tmp_path: Path, authority: trustme.CA) -> None:
    mine = authority.issue_cert("me", common_name="me")
    with serving(tmp_path, tls=_tls(TlsMode.VERIFY_FULL, tmp_path, authority, has_ca=True)) as server:
        assert server.fetch("SELECT 1", user="me", ssl=_context(authority, mine)) == ((1,),)
        assert _refusal(server, "you", "secret", ssl=_context(authority, mine))[0] == 1698


def test_new_connections_get_the_certificate_that_replaced_the_old_one(tmp_path: Path, authority: trustme.CA) -> None:
    with (
        serving(tmp_path, tls=_tls(TlsMode.REQUIRE, tmp_path, authority)) as server,
        server.connect(ssl=_context(authority)) as old,
    ):
        other = trustme.CA()
        (tmp_path / "cert.pem").write_bytes(b"half written")
        assert server.fetch("SELECT 1", ssl=_context(authority)) == ((1,),)
        _tls(TlsMode.REQUIRE, tmp_path, other)
        assert server.fetch("SELECT 1", ssl=_context(other)) == ((1,),)
        with pytest.raises(pymysql.err.MySQLError):
            server.fetch("SELECT 1", ssl=_context(authority))
        old.ping(reconnect=False)


def test_a_server_does_not_start_without_its_certificate(tmp_path: Path) -> None:
    tls = Tls(
        TlsMode.REQUIRE, cert_path=str(tmp_path / "no.pem"), key_path=str(tmp_path / "no.key"), section="mysql.tls"
    )
    with pytest.raises(StartError, match=r"mysql\.tls"):
        tls.load()
