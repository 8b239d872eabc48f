"""The server itself: its address, limits, deadlines, health, reflection, TLS, and how it stops."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.engine.lives import wait_until
from tests.servers.grpc.running import USERS, RunningServer, basic, running_server, trailer
from tests.servers.grpc.test_database import HOST, TS, insert, rows, sql
from tests.servers.http.sql_database import ScriptedDatabase
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate
from tsdb.errors import WIRE, StartError, Status, TsdbError
from tsdb.query import Affected
from tsdb.servers import Tls
from tsdb.servers.grpc import GrpcLimits, GrpcServer, database_services
from tsdb.servers.grpc._errors import status_code, trailers
from tsdb.telemetry import render
from tsdb.units import Duration, Size

HANDLE = "greptime.v1.GreptimeDatabase/Handle"
WRITE = insert(rows("t", [HOST, TS], ["a", 1])).SerializeToString()


@contextmanager
def scripted(database: ScriptedDatabase, limits: GrpcLimits | None = None) -> Iterator[str]:
    """Serve a database that answers what it was told; yields the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    address = {"host": "127.0.0.1", "port": 0}
    server = GrpcServer(DatabaseGate(database), [database_services], limits=limits, **address)  # type: ignore[arg-type]
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield server.address
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(1), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def test_an_address_that_is_taken_is_told_before_anything_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = GrpcServer(DatabaseGate(ScriptedDatabase()), [], host="127.0.0.1", port=port)  # type: ignore[arg-type]
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port} for gRPC: Address already in use"):
            server.probe()


async def test_two_servers_do_not_share_a_port() -> None:
    first = GrpcServer(DatabaseGate(ScriptedDatabase()), [], host="127.0.0.1", port=0)  # type: ignore[arg-type]
    await first.start()
    port = int(first.address.rsplit(":", 1)[1])
    second = GrpcServer(DatabaseGate(ScriptedDatabase()), [], host="127.0.0.1", port=port)  # type: ignore[arg-type]
    with pytest.raises(StartError):
        second.probe()
    await first.stop(1)


def test_a_message_over_the_limit_is_refused(tmp_path: Path) -> None:
    limits = GrpcLimits(receive_max=Size.parse("64KB"))
    with running_server(tmp_path / "d", limits=limits) as running:
        with pytest.raises(grpc.RpcError) as caught:
            running.call(HANDLE, bytes(1 << 20))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as caught:
            running.call(HANDLE, bytes(1 << 20), compression=grpc.Compression.Gzip)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert running.call(HANDLE, WRITE)


def test_a_call_that_sends_no_message_is_cut(tmp_path: Path) -> None:
    with (
        running_server(tmp_path / "d", limits=GrpcLimits(message_seconds=0.2)) as running,
        running.channel() as channel,
    ):
        silent = threading.Event()

        def nothing() -> Any:
            silent.wait(20)
            yield from ()

        for method in ("Handle", "HandleRequests"):
            call = channel.stream_unary(f"/greptime.v1.GreptimeDatabase/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(nothing(), timeout=10)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert caught.value.details() == "no message came for 0.2 s"
        silent.set()


def is_cut(opened: socket.socket) -> bool:
    """Whether the server closes a connection that says nothing."""
    opened.settimeout(10)
    try:
        while opened.recv(1024):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_a_connection_that_says_nothing_is_cut(tmp_path: Path) -> None:
    with running_server(tmp_path / "d", limits=GrpcLimits(handshake_seconds=0.5)) as running:
        host, port = running.address.rsplit(":", 1)
        for said in (b"", b"PRI * HTTP/2.0", b"GET / HTTP/1.1\r\n"):
            with socket.create_connection((host, int(port))) as opened:
                opened.sendall(said)
                assert is_cut(opened)
        assert running.call(HANDLE, WRITE)


def test_connections_over_the_limit_are_closed(tmp_path: Path) -> None:
    with running_server(tmp_path / "d", limits=GrpcLimits(connections_max=2)) as running, running.channel() as first:
        assert first.unary_unary(f"/{HANDLE}")(WRITE, timeout=10)
        host, port = running.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))), socket.create_connection((host, int(port))) as third:
            assert is_cut(third)
        assert first.unary_unary(f"/{HANDLE}")(WRITE, timeout=10)


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    with running_server(tmp_path / "d", limits=GrpcLimits(idle=Duration.parse("1s"))) as running:
        states: list[grpc.ChannelConnectivity] = []
        left = threading.Event()

        def note(state: grpc.ChannelConnectivity) -> None:
            states.append(state)
            if grpc.ChannelConnectivity.READY in states and state is grpc.ChannelConnectivity.IDLE:
                left.set()

        with running.channel() as channel:
            channel.subscribe(note, try_to_connect=True)
            assert left.wait(20)
            channel.unsubscribe(note)


PING = 6


def silent_client_frames(address: str) -> list[int]:
    """Open a connection and answer nothing until the server ends it; return the types of its HTTP/2 frames."""
    host, _, port = address.rpartition(":")
    found: list[int] = []
    with socket.create_connection((host, int(port)), timeout=30) as client, client.makefile("rb") as stream:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        while len(head := stream.read(9)) == 9:
            stream.read(int.from_bytes(head[:3], "big"))
            found.append(head[3])
    return found


def test_a_client_that_answers_no_ping_is_closed(tmp_path: Path) -> None:
    with running_server(tmp_path / "d", limits=GrpcLimits(keep_alive=Duration.parse("200ms"))) as running:
        assert PING in silent_client_frames(running.address)


def test_a_client_that_leaves_stops_what_runs_for_it() -> None:
    database = ScriptedDatabase({"slow": []})
    database.answers["slow"] = [database.block]
    with scripted(database) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{HANDLE}").future(sql("slow").SerializeToString())
        assert database.begun.wait(10)
        call.cancel()
        assert database.stopped.wait(10)
    assert database.cancelled


def test_a_deadline_of_the_client_is_the_time_a_statement_may_take() -> None:
    database = ScriptedDatabase({"slow": [], "fast": [Affected(1)]})
    database.answers["slow"] = [database.block]
    with scripted(database) as address, grpc.insecure_channel(address) as channel:
        send = channel.unary_unary(f"/{HANDLE}")
        with pytest.raises(grpc.RpcError) as caught:
            send(sql("slow").SerializeToString(), timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert database.stopped.wait(10)
        send(sql("fast").SerializeToString())
    timed, untimed = database.sessions
    assert timed.timeout is not None
    # The clocks of both ends are not the same one, and what travels is rounded up.
    assert 0 < timed.timeout < 400_000_000
    assert untimed.timeout is None


def test_no_more_statements_run_at_the_same_time_than_there_are_threads() -> None:
    database, lock = ScriptedDatabase(), threading.Lock()
    running, most, both = 0, 0, threading.Event()

    def count() -> Affected:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                both.set()
        assert both.wait(10)
        with lock:
            running -= 1
        return Affected(1)

    database.answers["count"] = [count]
    with scripted(database, limits=GrpcLimits(threads_max=2)) as address, grpc.insecure_channel(address) as channel:
        send = channel.unary_unary(f"/{HANDLE}")
        answers = [send.future(sql("count").SerializeToString(), timeout=20) for _ in range(8)]
        assert all(b"\x08\x01" in answer.result() for answer in answers)
    assert most == 2


def test_a_bug_is_an_internal_error_that_tells_nothing() -> None:
    database = ScriptedDatabase({"broken": [RuntimeError("the inside")]})
    broken = sql("broken").SerializeToString()
    with (
        scripted(database) as address,
        grpc.insecure_channel(address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(f"/{HANDLE}")(broken, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "inside" not in caught.value.details().replace("details", "")
    assert trailer(caught.value, "x-greptime-err-code") == "1003"


def test_calls_are_counted_by_method_and_code(served: RunningServer) -> None:
    served.call(HANDLE, WRITE)
    with pytest.raises(grpc.RpcError):
        served.call(HANDLE, b"\xff\xff")
    # A call is counted when it is over, which may be after its client has the answer.
    for code in ("OK", "INVALID_ARGUMENT"):
        counted = f'tsdb_servers_grpc_requests_total{{code="{code}",method="{HANDLE}"}}'
        wait_until(lambda: counted in render().decode())  # noqa: B023


def test_a_server_lets_calls_finish_when_it_stops() -> None:
    database = ScriptedDatabase({"slow": []})

    def finish() -> Affected:
        database.stopped.wait(10)
        return Affected(7)

    database.answers["slow"] = [finish]
    loop, server = (
        asyncio.new_event_loop(),
        GrpcServer(
            DatabaseGate(database),
            [database_services],
            host="127.0.0.1",
            port=0,  # type: ignore[arg-type]
        ),
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    with grpc.insecure_channel(server.address) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert health_pb2.HealthCheckResponse.FromString(next(watch)).status == 1
        call = channel.unary_unary(f"/{HANDLE}").future(sql("slow").SerializeToString())
        assert database.begun.wait(10)
        stopping = asyncio.run_coroutine_threadsafe(server.stop(10), loop)
        assert health_pb2.HealthCheckResponse.FromString(next(watch)).status == 2
        database.stopped.set()
        assert b"\x08\x07" in call.result(10)
        stopping.result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def test_a_stream_without_a_further_message_does_not_hold_up_the_end(tmp_path: Path) -> None:
    held, sent = threading.Event(), threading.Event()

    def messages() -> Iterator[bytes]:
        yield WRITE
        sent.set()
        held.wait(60)

    with ExitStack() as stack:
        running = stack.enter_context(running_server(tmp_path / "d", services=[database_services]))
        channel = stack.enter_context(running.channel())
        answer = channel.stream_unary("/greptime.v1.GreptimeDatabase/HandleRequests").future(messages(), timeout=60)
        assert sent.wait(30)
        while not running.sql("SHOW TABLES LIKE 't'"):
            assert not answer.done()
        begun = time.monotonic()
        running.stop(50)
        assert time.monotonic() - begun < 30
        held.set()
        assert answer.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert answer.details() == "the server is stopping; try again with the rest when it has restarted"


def test_health_is_told_for_the_whole_and_for_each_service(served: RunningServer) -> None:
    for name, status in (("", 1), ("greptime.v1.GreptimeDatabase", 1)):
        request = health_pb2.HealthCheckRequest(service=name).SerializeToString()
        assert (
            health_pb2.HealthCheckResponse.FromString(served.call("grpc.health.v1.Health/Check", request)).status
            == status
        )
    with pytest.raises(grpc.RpcError) as caught:
        served.call("grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(service="x").SerializeToString())
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_tool_learns_services_and_messages_by_reflection(served: RunningServer) -> None:
    with served.channel() as channel:
        known = ProtoReflectionDescriptorDatabase(channel)
        names = set(known.get_services())
        assert {
            "greptime.v1.GreptimeDatabase",
            "greptime.v1.PrometheusGateway",
            "greptime.v1.HealthCheck",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "opentelemetry.proto.collector.logs.v1.LogsService",
        } <= names
        pool = DescriptorPool(known)
        service = pool.FindServiceByName("greptime.v1.GreptimeDatabase")
        assert service.methods_by_name["Handle"].input_type.full_name == "greptime.v1.GreptimeRequest"
        otlp = pool.FindServiceByName("opentelemetry.proto.collector.metrics.v1.MetricsService")
        assert [each.name for each in otlp.methods] == ["Export"]
        with pytest.raises(KeyError):
            pool.FindServiceByName("no.such.Service")


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.SUCCESS], ids=lambda each: each.title)
def test_every_status_has_a_code_and_says_whether_to_try_again(status: Status) -> None:
    error = type("Failure", (TsdbError,), {"status": status})("x")
    found = dict(trailers(error))
    assert status_code(error).name == WIRE[status].grpc
    assert found["x-greptime-err-code"] == found["x-tsdb-err-code"] == str(status.value)
    if found["x-greptime-err-retry-hint"] == "retryable":
        details = RpcStatus.FromString(found["grpc-status-details-bin"])
        retry = RetryInfo()
        assert details.details[0].Unpack(retry)
        assert (details.code, retry.retry_delay.seconds) == (status_code(error).value[0], 1)
        assert status_code(error).name in ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
    else:
        assert "grpc-status-details-bin" not in found


def test_open_connections_are_counted() -> None:
    def counted() -> float:
        lines = render().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("tsdb_servers_grpc_connections "))

    alone = [("grpc.use_local_subchannel_pool", 1)]
    before = counted()
    with scripted(ScriptedDatabase()) as address:
        channels = [grpc.insecure_channel(address, options=alone) for _ in range(3)]
        for number, channel in enumerate(channels, 1):
            grpc.channel_ready_future(channel).result(10)
            wait_until(lambda: counted() == before + number)  # noqa: B023
        for number, channel in enumerate(channels, 1):
            channel.close()
            wait_until(lambda: counted() == before + 3 - number)  # noqa: B023
    assert counted() == before


class Files:
    """Certificates on disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()

    def renew(self) -> None:
        issued = self.authority.issue_cert("localhost", "127.0.0.1")
        issued.private_key_pem.write_to_path(self.key)
        self.cert.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))

    def tls(self, mode: TlsMode, **more: Any) -> Tls:
        return Tls(mode, cert_path=str(self.cert), key_path=str(self.key), section="grpc.tls", **more)

    def credentials(self, user: str | None = None) -> grpc.ChannelCredentials:
        key = chain = None
        if user is not None:
            issued = self.authority.issue_cert(f"{user}@example.org", common_name=user)
            key, chain = issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()
        return grpc.ssl_channel_credentials(self.ca.read_bytes(), key, chain)


def secure_write(address: str, credentials: grpc.ChannelCredentials, *metadata: tuple[str, str]) -> bytes:
    port = address.rsplit(":", 1)[1]
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        answer: bytes = channel.unary_unary(f"/{HANDLE}")(WRITE, metadata=metadata, timeout=10)
        return answer


def served_certificate(address: str) -> bytes:
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), timeout=10) as plain, context.wrap_socket(plain) as secure:
        found = secure.getpeercert(binary_form=True)
        assert found is not None
        return found


def test_a_server_that_requires_tls_refuses_plain_text_and_follows_its_files(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with running_server(tmp_path / "d", tls=files.tls(TlsMode.REQUIRE)) as running:
        assert secure_write(running.address, files.credentials())
        with pytest.raises(grpc.RpcError) as caught:
            running.call(HANDLE, WRITE, timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        first = served_certificate(running.address)
        files.renew()
        assert served_certificate(running.address) != first
        second = served_certificate(running.address)
        files.key.write_text("half of a pair")
        assert served_certificate(running.address) == second
        assert secure_write(running.address, files.credentials())


def test_prefer_means_plain_text_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Files(tmp_path)
    with running_server(tmp_path / "d", tls=files.tls(TlsMode.PREFER)) as running:
        assert running.call(HANDLE, WRITE)
    assert "only plain text is served" in caplog.text


def test_clients_show_a_certificate_of_the_ca_in_the_name_of_their_user(tmp_path: Path) -> None:
    files, other = Files(tmp_path), trustme.CA()
    tls = files.tls(TlsMode.VERIFY_FULL, ca_cert_path=str(files.ca))
    with running_server(tmp_path / "d", tls=tls, users=USERS) as running:
        login = ("authorization", basic("u1", "p1"))
        assert secure_write(running.address, files.credentials("u1"), login)
        with pytest.raises(grpc.RpcError) as caught:
            secure_write(running.address, files.credentials("w"), login)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        issued = other.issue_cert("x@example.org", common_name="u1")
        foreign = grpc.ssl_channel_credentials(
            files.ca.read_bytes(), issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()
        )
        for credentials in (files.credentials(), foreign):
            with pytest.raises(grpc.RpcError) as caught:
                secure_write(running.address, credentials, login)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_cannot_be_read_is_told_at_the_start(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.cert.write_text("not a certificate")
    with pytest.raises(StartError, match=r"grpc\.tls"), running_server(tmp_path / "d", tls=files.tls(TlsMode.REQUIRE)):
        pass


def test_a_method_that_is_no_text_does_not_end_the_server(tmp_path: Path) -> None:
    """The loop of the gRPC library ends at one; the server starts another."""

    def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body

    fields = {b":method": b"POST", b":scheme": b"http", b":path": b"/a\xff/b", b":authority": b"a", b"te": b"trailers"}
    head = b"".join(b"\0" + bytes((len(k),)) + k + bytes((len(v),)) + v for k, v in fields.items())
    with running_server(tmp_path / "poisoned") as running:
        host, port = running.address.split(":")
        for _ in range(2):
            with socket.create_connection((host, int(port)), timeout=20) as client:
                client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, head))
                while client.recv(4096):
                    pass
            with grpc.insecure_channel(running.address) as channel:
                check = channel.unary_unary("/greptime.v1.HealthCheck/HealthCheck")
                assert check(b"", timeout=30, wait_for_ready=True) == b""
