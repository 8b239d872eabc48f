"""Logins at every port: none, wrong, right, malformed, replayed, unknown; who may only read or only write.

HTTP and gRPC carry the password itself, so a login that somebody has recorded is a login: what they must never do is
answer a recorded proof of MySQL's or PostgreSQL's protocol, which hold for one connection only, or a token of Flight
at another server than the one that gave it out. OpenTSDB's telnet protocol has no logins and takes nothing where they
are needed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import socket
import struct
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager
import grpc
import httpx
import psycopg
import pyarrow as pa
import pyarrow.flight as fl
import pymysql
import pytest

from tests.server_process import ServerProcess, running
from tests.servers.grpc.flight.clients import command
from tests.servers.grpc.running import basic, trailer
from tests.servers.mysql.raw_client import RawClient as MysqlClient
from tests.servers.mysql.raw_client import errno_of, login_packet
from tests.servers.postgres.running import RawClient as PostgresClient
from tests.servers.postgres.running import error_field
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.proto import greptime_pb2 as v1

SECONDS = 30
SALT = b"0123456789abcdef"
ITERATIONS = 100_000
HASHED = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, ITERATIONS).hex()
USERS = "static_user_provider:cmd:me=secret,reader:ro=secret,writer:wo=secret"
COSTLY = f"=pbkdf2_sha256:{ITERATIONS}:{SALT.hex()}:{HASHED}"
COSTLY_USERS = ",".join([USERS, *(f"at_{door}{COSTLY}" for door in ("http", "mysql", "postgres", "grpc"))])
"""One for each port, because failures of one user are counted whatever the port."""
IN = "in"
READ, WRITE = "SELECT count(*) FROM logins", "INSERT INTO logins VALUES (1, 1.0)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("logins"), "--user-provider", USERS) as started:
        assert _http(started, "me", "secret", "CREATE TABLE logins (ts TIMESTAMP TIME INDEX, v DOUBLE)") == IN
        yield started


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("costly"), "--user-provider", COSTLY_USERS) as started:
        yield started


@pytest.fixture(scope="module")
def guessed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    users = ",".join(
        f"{who}_{door}=secret" for who in ("at", "other") for door in ("http", "mysql", "postgres", "grpc")
    )
    provider = f"static_user_provider:cmd:{users}"
    with running("standalone", tmp_path_factory.mktemp("guessed"), "--user-provider", provider) as started:
        yield started


def _port(server: ServerProcess, protocol: str) -> int:
    found = re.search(rf"^  {protocol} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return int(found[1])


# One statement as a user, at each door: `in`, or what the refusal says without the name of the user ----------------


def _http(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    headers = {} if user is None else {"Authorization": basic(user, password)}
    return _http_with(server, headers, statement)


def _http_with(server: ServerProcess, headers: dict[str, str], statement: str) -> str:
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": statement}, headers=headers, timeout=SECONDS)
    return IN if answer.status_code == 200 else f"{answer.status_code}/{answer.json()['code']}"


def _mysql(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    try:
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=_port(server, "MySQL"),
                user=user or "",
                password=password,
                database="public",
                connect_timeout=SECONDS,
                read_timeout=SECONDS,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    except pymysql.err.MySQLError as refused:
        return str(refused.args[0])
    return IN


def _postgres(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    given = {"password": password} if password else {}
    try:
        with psycopg.connect(
            host="127.0.0.1",
            port=_port(server, "Postgres"),
            user=user or "nobody",
            dbname="public",
            connect_timeout=SECONDS,
            autocommit=True,
            **given,
        ) as connection:
            connection.execute(statement.encode())
    except psycopg.Error as refused:
        told = str(refused).lower()
        return refused.sqlstate or ("28P01" if "authentication failed" in told or "no password" in told else told)
    return IN


def _grpc(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    metadata = () if user is None else (("authorization", basic(user, password)),)
    return _grpc_with(server, metadata, statement)


def _grpc_with(server: ServerProcess, metadata: tuple[tuple[str, str], ...], statement: str) -> str:
    request = v1.GreptimeRequest(header=v1.RequestHeader(dbname="public"), query=v1.QueryRequest(sql=statement))
    with grpc.insecure_channel(f"127.0.0.1:{_port(server, 'gRPC')}") as channel:
        # Rows come by DoGet only; a statement that answers with none goes to the database service.
        is_query = statement.startswith("SELECT")
        method = "arrow.flight.protocol.FlightService/DoGet" if is_query else "greptime.v1.GreptimeDatabase/Handle"
        raw = request.SerializeToString()
        try:
            if is_query:
                ticket = b"\x0a" + _varint(len(raw)) + raw
                list(channel.unary_stream(f"/{method}")(ticket, metadata=metadata, timeout=SECONDS))
            else:
                channel.unary_unary(f"/{method}")(raw, metadata=metadata, timeout=SECONDS)
        except grpc.RpcError as refused:
            return f"{refused.code().name}/{trailer(refused, 'x-greptime-err-code')}"
    return IN


def _flight(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    """By Flight: a handshake for a token, and the statement with that."""
    try:
        with fl.connect(f"grpc://127.0.0.1:{_port(server, 'gRPC')}") as client:
            options = None
            if user is not None:
                options = fl.FlightCallOptions(
                    headers=[client.authenticate_basic_token(user, password)], timeout=SECONDS
                )
            _ask_flight(client, statement, options)
    except fl.FlightUnauthenticatedError:
        return "UNAUTHENTICATED"
    except fl.FlightUnauthorizedError:
        return "PERMISSION_DENIED"
    return IN


def _ask_flight(client: fl.FlightClient, statement: str, options: fl.FlightCallOptions | None) -> None:
    if statement.startswith("SELECT"):
        info = client.get_flight_info(command(sql.CommandStatementQuery(query=statement)), options)
        client.do_get(info.endpoints[0].ticket, options).read_all()
        return
    writer, reader = client.do_put(command(sql.CommandStatementUpdate(query=statement)), pa.schema([]), options)
    with writer:
        writer.done_writing()
        reader.read()


def _adbc(server: ServerProcess, user: str | None, password: str, statement: str) -> str:
    """By Flight SQL, as the driver of ADBC speaks it."""
    given = {} if user is None else {"username": user, "password": password}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there are no transactions
            opened = flight_sql.connect(f"grpc://127.0.0.1:{_port(server, 'gRPC')}", db_kwargs=given)
        with opened as connection, connection.cursor() as cursor:
            if statement.startswith("SELECT"):
                cursor.execute(statement)
                cursor.fetchall()
            else:
                cursor.executemany("INSERT INTO logins VALUES (?, ?)", [(1, 1.0)])
    except adbc_driver_manager.Error as refused:
        return refused.status_code.name
    return IN


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


@dataclass(frozen=True)
class Door:
    """A port, and what it says to those it does not let in."""

    ask: Callable[[ServerProcess, str | None, str, str], str]
    none: str
    wrong: str
    forbidden: str


DOORS = {
    "http": Door(_http, "401/7003", "401/7002", "403/7006"),
    "mysql": Door(_mysql, "1698", "1698", "1045"),
    "postgres": Door(_postgres, "28P01", "28P01", "42501"),
    "grpc": Door(_grpc, "UNAUTHENTICATED/7003", "UNAUTHENTICATED/7002", "PERMISSION_DENIED/7006"),
    "flight": Door(_flight, "UNAUTHENTICATED", "UNAUTHENTICATED", "PERMISSION_DENIED"),
    "flight_sql": Door(_adbc, "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHORIZED"),
}
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@doors
@pytest.mark.parametrize(
    ("user", "password", "statement", "outcome"),
    [
        (None, "", READ, "none"),
        ("me", "wrong", READ, "wrong"),
        ("nobody", "secret", READ, "wrong"),
        ("ME", "secret", READ, "wrong"),
        ("me", "secret ", READ, "wrong"),
        ("me", "secret", READ, IN),
        ("me", "secret", WRITE, IN),
        ("reader", "secret", READ, IN),
        ("reader", "secret", WRITE, "forbidden"),
        ("writer", "secret", WRITE, IN),
        ("writer", "secret", READ, "forbidden"),
        ("reader", "wrong", READ, "wrong"),
    ],
)
def test_who_gets_in_and_what_they_may_do(
    server: ServerProcess, door: Door, user: str | None, password: str, statement: str, outcome: str
) -> None:
    expected = IN if outcome == IN else getattr(door, outcome)
    assert door.ask(server, user, password, statement) == expected


@pytest.mark.parametrize(
    "header",
    ["Basic !!!", "Basic", "Basic " + base64.b64encode(b"me").decode(), "Digest me:secret", "\xff\xfe", "Basic \x00"],
)
def test_a_malformed_header_is_refused_at_http_and_grpc(server: ServerProcess, header: str) -> None:
    if "\x00" not in header:
        assert _http_with(server, {"Authorization": header.encode("latin-1")}, READ) == "401/7004"  # type: ignore[dict-item]
    if header.isascii() and "\x00" not in header:
        assert _grpc_with(server, (("authorization", header),), READ) == "UNAUTHENTICATED/7004"


@pytest.mark.parametrize(
    "header",
    [
        "Basic !!!",
        "Basic",
        "Bearer",
        "Bearer " + "x" * 43,
        "Bearer " + "x" * 5000,
        "me:secret",
        "Basic " + base64.b64encode(b"me").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
    ],
)
def test_a_malformed_header_is_refused_at_flight(server: ServerProcess, header: str) -> None:
    options = fl.FlightCallOptions(headers=[(b"authorization", header.encode())], timeout=SECONDS)
    with fl.connect(f"grpc://127.0.0.1:{_port(server, 'gRPC')}") as client:
        for statement in (READ, WRITE):
            with pytest.raises(fl.FlightUnauthenticatedError):
                _ask_flight(client, statement, options)
        for ask in (client.list_flights, client.list_actions):
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(ask(options=options))


def test_a_recorded_token_is_worth_nothing_at_another_server(server: ServerProcess, costly: ServerProcess) -> None:
    with fl.connect(f"grpc://127.0.0.1:{_port(server, 'gRPC')}") as client:
        token = client.authenticate_basic_token("me", "secret")
        options = fl.FlightCallOptions(headers=[token], timeout=SECONDS)
        _ask_flight(client, READ, options)
        _ask_flight(client, READ, options)
    with fl.connect(f"grpc://127.0.0.1:{_port(costly, 'gRPC')}") as client:
        with pytest.raises(fl.FlightUnauthenticatedError):
            _ask_flight(client, "SELECT 1", options)
        with pytest.raises(fl.FlightUnauthenticatedError):
            client.authenticate_basic_token("me", token[1].decode())


def test_a_token_gives_no_more_than_its_user_has(server: ServerProcess) -> None:
    with fl.connect(f"grpc://127.0.0.1:{_port(server, 'gRPC')}") as client:
        reader, writer = (
            fl.FlightCallOptions(headers=[client.authenticate_basic_token(user, "secret")], timeout=SECONDS)
            for user in ("reader", "writer")
        )
        ticket = client.get_flight_info(command(sql.CommandStatementQuery(query=READ)), reader).endpoints[0].ticket
        with pytest.raises(fl.FlightUnauthorizedError):
            client.do_get(ticket, writer).read_all()


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x00", b"\xff" * 40, login_packet(b"me")[:30], login_packet(b"\xff\xfe"), login_packet(b"me" * 9000)],
)
def test_a_malformed_login_ends_the_connection_at_mysql(server: ServerProcess, answer: bytes) -> None:
    with MysqlClient(_port(server, "MySQL"), logs_in=False) as client:
        client.send(answer, 1)
        found = client.read()
        if found[:1] == b"\xfe":  # asked for a proof
            client.send(b"no proof", 3)
            found = client.read()
        assert found == b"" or found[:1] == b"\xff"
        assert client.is_closed()


@pytest.mark.parametrize(
    "proof",
    [b"", b"\0", b"SCRAM-SHA-256\0\xff\xff\xff\xff", b"SCRAM-SHA-256\0\0\0\0\3n,,", b"MD5\0\0\0\0\0", b"x" * 500],
)
def test_a_malformed_login_ends_the_connection_at_postgres(server: ServerProcess, proof: bytes) -> None:
    with PostgresClient(_port(server, "Postgres")) as client:
        client.log_in_only("me")
        assert client.read()[0] == "R"
        client.send("p", proof)
        tag, body = client.read()
        assert (tag, error_field(body, "S")) == ("E", "FATAL")
        assert client.read() == ("", b"")


def test_a_recorded_proof_is_worth_nothing_at_mysql(server: ServerProcess) -> None:
    def proof(greeting: bytes) -> bytes:
        rest = greeting.split(b"\x00", 1)[1]
        stored = hashlib.sha1(hashlib.sha1(b"secret").digest()).digest()
        mask = hashlib.sha1(rest[4:12] + rest[31:43] + stored).digest()
        return bytes(a ^ b for a, b in zip(hashlib.sha1(b"secret").digest(), mask, strict=True))

    with MysqlClient(_port(server, "MySQL"), logs_in=False) as client:
        recorded = proof(client.greeting)
    with MysqlClient(_port(server, "MySQL"), logs_in=False) as client:
        client.send(login_packet(b"me"), 1)
        assert client.read()[:1] == b"\xfe"
        client.send(recorded, 3)
        assert errno_of(client.read()) == 1698


def test_a_recorded_proof_is_worth_nothing_at_postgres(server: ServerProcess) -> None:
    first = b"n,,n=,r=nonce"
    recorded = b""
    for attempt in range(2):
        with PostgresClient(_port(server, "Postgres")) as client:
            client.log_in_only("me")
            client.read()
            client.send("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
            challenge = client.read()[1][4:]
            recorded = recorded or _scram_proof(first[3:], challenge, b"secret")
            client.send("p", recorded)
            tag, body = client.read()
            if attempt == 0:
                assert (tag, body[:4]) == ("R", struct.pack("!i", 12)), "the proof is right once"
            else:
                assert tag == "E", "a nonce of another connection"
                assert error_field(body, "C") in ("08P01", "28P01")


def _scram_proof(first: bytes, challenge: bytes, password: bytes) -> bytes:
    """What a client sends that knows the password, by RFC 5802."""
    fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password, base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    bare = b"c=biws,r=" + fields[b"r"]
    signature = hmac.digest(hashlib.sha256(key).digest(), b",".join((first, challenge, bare)), "sha256")
    return bare + b",p=" + base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))


def test_telnet_has_no_logins_and_takes_nothing(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", _port(server, "OpenTSDB")), timeout=SECONDS) as client:
        client.sendall(b"put telnet_login 1700000000 1 host=a\n")
        assert client.recv(4096), "a refusal, not silence"
    assert _http(server, "me", "secret", "SELECT * FROM telnet_login").startswith("400")


@pytest.mark.parametrize("port", ["http", "mysql", "postgres", "grpc"])
def test_an_unknown_user_takes_as_long_as_a_wrong_password(costly: ServerProcess, port: str) -> None:
    """Of the most costly secret there is; the server's seconds of CPU, because others use the machine."""

    door = DOORS[port]

    def seconds(user: str) -> float:
        started = _cpu_seconds(costly)
        assert door.ask(costly, user, "guess", "SELECT 1") == door.wrong
        return _cpu_seconds(costly) - started

    wrong: list[float] = []
    unknown: list[float] = []
    # Fewer than the failures after which a user has to wait; the clock has steps of 10 ms, a hash takes several.
    for attempt in range(18):
        wrong.append(seconds(f"at_{port}"))
        unknown.append(seconds(f"nobody{attempt}"))
        if attempt >= 5 and 0.5 < sum(unknown) / sum(wrong) < 2:
            break
    assert 0.5 < sum(unknown) / sum(wrong) < 2, (wrong, unknown)


def _cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("port", "told"),
    [
        ("http", "429/6001"),
        ("mysql", "1637"),
        ("postgres", "too many failed logins"),
        ("grpc", "RESOURCE_EXHAUSTED/6001"),
    ],
)
def test_who_fails_too_often_waits_even_with_the_right_password(guessed: ServerProcess, port: str, told: str) -> None:
    door, user = DOORS[port], f"at_{port}"
    assert door.ask(guessed, user, "secret", "SELECT 1") == IN
    assert door.ask(guessed, user, "guess", "SELECT 1") == door.wrong
    # On a slow machine the time may be up between two tries.
    assert any(
        told in door.ask(guessed, user, "guess", "SELECT 1") and told in door.ask(guessed, user, "secret", "SELECT 1")
        for _ in range(100)
    )
    assert door.ask(guessed, f"other_{port}", "secret", "SELECT 1") == IN
    logged = [line for line in guessed.output.splitlines() if user in line]
    assert "WARN tsdb.auth: a login failed" in logged[0]
    assert not any("guess" in line or "secret" in line for line in logged)
