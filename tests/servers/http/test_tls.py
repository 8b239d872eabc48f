"""HTTP inside of TLS: every mode, certificates of clients, and new certificates while requests are under way."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import trustme
import uvloop

from tsdb.auth import open_authenticator
from tsdb.config import TlsMode
from tsdb.errors import StartError
from tsdb.servers import Tls
from tsdb.servers.http import HttpApp, HttpServer, Request, Response
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning
from tsdb.units import Duration

pytestmark = pytest.mark.timeout(30)

SECONDS_MAX = 10


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def hello(request: Request) -> Response:
    return Response.text("hello")


def put_certificate(authority: trustme.CA, directory: Path, *, ends: datetime | None = None) -> None:
    """Write a new pair; the certificate comes last, by a move, as tools that renew certificates do it."""
    issued = authority.issue_cert("localhost", "127.0.0.1", not_after=ends)
    for name, pem in (("key.pem", issued.private_key_pem), ("cert.pem", issued.cert_chain_pems[0])):
        pem.write_to_path(directory / f"{name}.new")
        os.replace(directory / f"{name}.new", directory / name)
    authority.cert_pem.write_to_path(directory / "ca.pem")


def transport_security(directory: Path, mode: TlsMode, *, with_ca: bool = False) -> Tls:
    return Tls(
        mode,
        cert_path=str(directory / "cert.pem"),
        key_path=str(directory / "key.pem"),
        ca_cert_path=str(directory / "ca.pem") if with_ca else "",
        section="http.tls",
    )


@asynccontextmanager
async def serving(tls: Tls, app: HttpApp | None = None, tuning: HttpTuning = TUNING) -> AsyncIterator[HttpServer]:
    if app is None:
        app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/hello", hello)
    server = HttpServer(app, host="127.0.0.1", port=0, tls=tls, tuning=tuning)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(1.0)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def get(server: HttpServer, path: str, context: ssl.SSLContext) -> httpx.Response:
    async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False, verify=context) as client:
        return await client.get(f"{server.url}{path}")


async def serial_number(server: HttpServer) -> int:
    """Something that tells apart the certificates that new connections are shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return await shown_to(server, context)


async def shown_to(server: HttpServer, context: ssl.SSLContext) -> int:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return hash(shown)
    finally:
        writer.close()


async def test_plain_text_is_spoken_where_tls_is_disabled(tmp_path: Path, authority: trustme.CA) -> None:
    async with serving(transport_security(tmp_path, TlsMode.DISABLE)) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert (await get(server, "/hello", trusting(authority))).text == "hello"


async def test_both_are_spoken_at_one_port_where_tls_is_preferred(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/who", who)
    async with serving(transport_security(tmp_path, TlsMode.PREFER), app) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False, verify=trusting(authority)) as client:
            for scheme in ("http", "https", "http"):
                answer = await client.get(f"{scheme}://{server.address}/who")
                assert (answer.status_code, answer.text) == (200, "None from 127.0.0.1")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False) as client:
                await client.get(f"https://{server.address}/who")


@pytest.mark.parametrize("mode", [TlsMode.REQUIRE, TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL])
async def test_tls_is_spoken_and_the_certificate_can_be_verified(
    tmp_path: Path, authority: trustme.CA, mode: TlsMode
) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, mode)) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert (await get(server, "/hello", trusting(authority))).text == "hello"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await get(server, "/hello", trusting(trustme.CA()))


async def test_a_client_sees_that_a_certificate_has_expired(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path, ends=datetime.now(UTC) - timedelta(days=1))
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE)) as server:
        with pytest.raises(httpx.ConnectError, match="certificate has expired"):
            await get(server, "/hello", trusting(authority))


async def test_plain_text_on_a_port_with_tls_is_refused_at_once(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        refusal = await asyncio.wait_for(reader.read(), SECONDS_MAX)
        writer.close()
        assert refusal.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert refusal.endswith(b"\r\n\r\nthis port speaks TLS only.\n")
        assert (await get(server, "/hello", trusting(authority))).text == "hello"


async def test_clients_must_show_a_certificate_of_the_ca(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, TlsMode.VERIFY_CA, with_ca=True)) as server:
        # The client believes that it is connected before the server has looked at its certificate.
        with pytest.raises((httpx.TransportError, ssl.SSLError), match=r"(?i)certificate.required"):
            await get(server, "/hello", trusting(authority))
        other = trusting(authority)
        trustme.CA().issue_cert("me@example.org").configure_cert(other)
        with pytest.raises((httpx.TransportError, ssl.SSLError), match=r"(?i)unknown.ca"):
            await get(server, "/hello", other)
        known = trusting(authority)
        authority.issue_cert("me@example.org").configure_cert(known)
        assert (await get(server, "/hello", known)).text == "hello"


def test_what_is_said_at_once_is_not_lost_on_the_event_loop_of_the_server(
    tmp_path: Path, authority: trustme.CA
) -> None:
    put_certificate(authority, tmp_path)

    async def ask() -> None:
        async with serving(transport_security(tmp_path, TlsMode.PREFER)) as server:
            for _ in range(30):
                with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as client:
                    client.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = await asyncio.to_thread(_read_all, client)
                assert answer.endswith(b"hello")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


def _read_all(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def certified(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = trusting(authority)
    authority.issue_cert(f"{name}@example.org", common_name=name).configure_cert(context)
    return context


async def who(request: Request) -> Response:
    return Response.text(f"{request.user} from {request.client_host}")


async def test_a_certificate_must_be_in_the_name_of_the_user(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    users = open_authenticator("static_user_provider:cmd:me=secret,other=secret")
    app = HttpApp(body_limit=0, timeout=Duration(0), authenticator=users)
    app.add("/v1/who", who)
    async with serving(transport_security(tmp_path, TlsMode.VERIFY_FULL, with_ca=True), app) as server:
        url, mine = f"{server.url}/v1/who", certified(authority, "me")
        async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False, verify=mine) as client:
            for _ in range(2):
                answer = await client.get(url, auth=("me", "secret"))
                assert (answer.status_code, answer.text) == (200, "me from 127.0.0.1")
            for user, password in (("other", "secret"), ("me", "wrong"), ("nobody", "secret")):
                refused = await client.get(url, auth=(user, password))
                assert (refused.status_code, refused.json()["code"]) == (401, 7002)
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await get(server, "/v1/who", trusting(authority))
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await get(server, "/v1/who", certified(trustme.CA(), "me"))
    app.close()


async def test_large_bodies_pass_the_front_both_ways_and_new_certificates_are_used(
    tmp_path: Path, authority: trustme.CA
) -> None:
    async def echo(request: Request) -> Response:
        return Response(await request.body())

    put_certificate(authority, tmp_path)
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/echo", echo, methods=("POST",))
    async with serving(transport_security(tmp_path, TlsMode.VERIFY_FULL, with_ca=True), app) as server:
        body, context = os.urandom(8 << 20), certified(authority, "me")
        async with httpx.AsyncClient(timeout=SECONDS_MAX, trust_env=False, verify=context) as client:
            for _ in range(2):
                assert (await client.post(f"{server.url}/echo", content=body)).content == body
            before = await shown_to(server, context)
            put_certificate(authority, tmp_path)
            assert (await client.get(f"{server.url}/hello")).text == "hello", "what is open stays open"
            assert await shown_to(server, context) != before


async def test_a_client_that_does_not_shake_hands_does_not_hold_up_the_end(
    tmp_path: Path, authority: trustme.CA
) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, TlsMode.VERIFY_FULL, with_ca=True)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await get(server, "/hello", certified(authority, "me"))).text == "hello"
        await asyncio.wait_for(server.stop(1.0), SECONDS_MAX / 2)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), SECONDS_MAX) == b""
        writer.close()


async def test_connections_over_the_limit_wait_at_the_front(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/hello", hello)
    tls = transport_security(tmp_path, TlsMode.VERIFY_FULL, with_ca=True)
    server = HttpServer(app, host="127.0.0.1", port=0, tls=tls, connections_max=1)
    await server.start()
    context = certified(authority, "me")
    _, first = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    waiting = asyncio.create_task(get(server, "/hello", context))
    assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
    first.close()
    assert (await waiting).text == "hello"
    await server.stop(1.0)


async def test_a_server_does_not_start_without_its_certificate(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"cannot use the certificate and the key of http\.tls: .*cert\.pem"):
        async with serving(transport_security(tmp_path, TlsMode.REQUIRE)):
            pass


async def test_versions_of_tls_before_1_2_are_refused(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE)) as server:
        for version, is_spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            context = trusting(authority)
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                context.minimum_version = version
                context.maximum_version = version
            context.set_ciphers("DEFAULT@SECLEVEL=0")
            if is_spoken:
                assert (await get(server, "/hello", context)).text == "hello"
            else:
                with pytest.raises(httpx.ConnectError):
                    await get(server, "/hello", context)


async def test_a_new_certificate_is_for_new_connections_and_requests_under_way_go_on(
    tmp_path: Path, authority: trustme.CA
) -> None:
    put_certificate(authority, tmp_path)
    entered, proceed = asyncio.Event(), asyncio.Event()

    async def wait(request: Request) -> Response:
        entered.set()
        await proceed.wait()
        return Response.text("at last")

    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/wait", wait)
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE), app) as server:
        before = await serial_number(server)
        waiting = asyncio.create_task(get(server, "/wait", trusting(authority)))
        await entered.wait()
        put_certificate(authority, tmp_path)
        assert await serial_number(server) != before
        assert (await get(server, "/hello", trusting(authority))).text == "hello"
        proceed.set()
        assert (await waiting).text == "at last"


async def test_nobody_who_connects_while_certificates_change_is_turned_away(
    tmp_path: Path, authority: trustme.CA
) -> None:
    put_certificate(authority, tmp_path)
    context = trusting(authority)
    changes_done = asyncio.Event()

    async def connect_again_and_again(server: HttpServer) -> int:
        count = 0
        while not changes_done.is_set():
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
            writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"hello")
            writer.close()
            count += 1
        return count

    async with serving(transport_security(tmp_path, TlsMode.REQUIRE)) as server:
        clients = [asyncio.create_task(connect_again_and_again(server)) for _ in range(4)]
        for _ in range(4):
            before = await serial_number(server)
            put_certificate(authority, tmp_path)
            assert await serial_number(server) != before
            await asyncio.sleep(0.05)
        changes_done.set()
        assert min(await asyncio.gather(*clients)) > 0


async def test_files_that_cannot_be_used_leave_the_certificate_in_use(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE)) as server:
        before = await serial_number(server)
        (tmp_path / "cert.pem").write_text("half of a certificate")
        assert await serial_number(server) == before
        assert (await get(server, "/hello", trusting(authority))).text == "hello"
        put_certificate(authority, tmp_path)
        assert await serial_number(server) != before


async def test_places_of_clients_that_do_not_shake_hands_are_free_again(tmp_path: Path, authority: trustme.CA) -> None:
    put_certificate(authority, tmp_path)
    tuning = HttpTuning(handshake_seconds_max=0.1)
    async with serving(transport_security(tmp_path, TlsMode.REQUIRE), tuning=tuning) as server:
        listener = server._listener
        assert listener is not None
        for said in (b"\x16\x03\x01", b"\x16 no handshake at all" * 100, b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(said)
            await asyncio.wait_for(reader.read(), SECONDS_MAX)
            writer.close()
        assert (await get(server, "/hello", trusting(authority))).text == "hello"
        async with asyncio.timeout(SECONDS_MAX):
            while listener._connections or listener._shaking:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        # The next connection has its place already.
        assert listener._places._value == 4095
