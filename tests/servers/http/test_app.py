import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.servers.http.asgi_client import Exchange, call
from tsdb.errors import DeadlineExceeded, InvalidSyntax, TsdbError
from tsdb.servers.http import HttpApp, Request, Response, StreamingResponse, short_error_body
from tsdb.telemetry import render
from tsdb.units import Duration


def make_app(*, body_limit: int = 0, timeout: str = "0s", linger_seconds_max: float = 2.0) -> HttpApp:
    return HttpApp(body_limit=body_limit, timeout=Duration.parse(timeout), linger_seconds_max=linger_seconds_max)


async def hello(request: Request) -> Response:
    return Response.text("hello")


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def wait_for_ever(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


def sample(name: str, **labels: str) -> float:
    """Read one sample from the text a scraper would get."""
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    for line in render().decode().splitlines():
        series, _, value = line.rpartition(" ")
        if series.startswith(name + "{") and wanted <= set(series[len(name) + 1 : -1].split(",")):
            return float(value)
    return 0.0


# Routing


async def test_an_answer_has_its_status_type_and_length() -> None:
    app = make_app()
    app.add("/hello", hello)
    answer = await call(app, "GET", "/hello?x=1")
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers == {"content-type": "text/plain; charset=utf-8", "content-length": "5"}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/nowhere", ""),
        ("/v1/sqll", "; did you mean /v1/sql?"),
        ("/sql", "; did you mean /v1/sql?"),
        ("/v1", "; did you mean /v1/sql?"),
        ("/V1/SQL/", "; did you mean /v1/sql?"),
        ("/v1/sql/query", "; did you mean /v1/sql?"),
    ],
)
async def test_an_unknown_path_is_404_and_names_the_nearest_endpoints(path: str, hint: str) -> None:
    app = make_app()
    app.add("/v1/sql", hello)
    answer = await call(app, "GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/json")
    assert answer.json()["error"] == f"there is no endpoint {path}{hint}"


async def test_a_wrong_method_is_405_and_says_which_are_right() -> None:
    app = make_app()
    app.add("/x", hello, methods=("GET", "POST"))
    answer = await call(app, "DELETE", "/x")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert "it supports GET, HEAD, POST" in answer.json()["error"]


async def test_head_is_get_without_its_body() -> None:
    app = make_app()
    app.add("/x", hello)
    for _ in range(2):
        answer = await call(app, "HEAD", "/x")
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "5")


async def test_an_exact_path_wins_over_a_prefix_and_a_longer_prefix_over_a_shorter() -> None:
    app = make_app()

    def say(text: str):  # type: ignore[no-untyped-def]
        async def handler(request: Request) -> Response:
            return Response.text(text)

        return handler

    app.add("/a/*", say("short"))
    app.add("/a/b/*", say("long"))
    app.add("/a/b/exact", say("exact"))
    assert (await call(app, "GET", "/a/x")).body == b"short"
    assert (await call(app, "GET", "/a/b/x")).body == b"long"
    assert (await call(app, "GET", "/a/b/exact")).body == b"exact"
    assert (await call(app, "GET", "/a")).status == 404


def test_two_handlers_of_one_method_are_a_mistake() -> None:
    app = make_app()
    app.add("/x", hello, methods=("POST",))
    app.add("/x", hello)
    with pytest.raises(ValueError, match="GET /x has two handlers"):
        app.add("/x", hello)


# Bodies


async def test_a_body_declared_over_the_limit_is_413_before_any_of_it_is_read() -> None:
    app = make_app(body_limit=10)
    app.add("/x", echo, methods=("POST",))
    exchange = Exchange(app, "POST", "/x", {"content-length": "11"})
    exchange.feed(b"0123456789a")
    answer = await exchange.finish()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert exchange.received_before_answer == 0
    assert answer.json()["error"] == (
        "the request body is larger than 10 bytes; send smaller requests or raise http.body_limit"
    )


async def test_a_chunked_body_over_the_limit_is_413_while_it_is_read() -> None:
    app = make_app(body_limit=10)
    app.add("/x", echo, methods=("POST",))
    exchange = Exchange(app, "POST", "/x", {"transfer-encoding": "chunked"})
    exchange.feed(b"0123456789", more=True)
    exchange.feed(b"0", more=True)
    exchange.feed(b"thrown away", more=True)
    exchange.feed(b"", more=False)
    assert (await exchange.finish()).status == 413
    assert exchange.received_before_answer == 2


async def test_a_client_that_goes_on_sending_after_its_answer_is_borne_only_for_a_while() -> None:
    app = make_app(body_limit=10, linger_seconds_max=0.01)
    app.add("/x", echo, methods=("POST",))
    exchange = Exchange(app, "POST", "/x", {"content-length": "11"})
    assert (await exchange.finish()).status == 413
    exchange = Exchange(app, "POST", "/nowhere", {"content-length": "11"})
    assert (await exchange.finish()).status == 404


async def test_a_client_that_waits_to_be_asked_for_its_body_is_not_waited_for() -> None:
    app = make_app(body_limit=10, linger_seconds_max=60)
    app.add("/x", echo, methods=("POST",))
    began = time.monotonic()
    exchange = Exchange(app, "POST", "/x", {"content-length": "11", "expect": "100-continue"})
    assert (await exchange.finish()).status == 413
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("limit", [0, 10])
async def test_a_body_up_to_the_limit_is_taken_and_zero_is_no_limit(limit: int) -> None:
    app = make_app(body_limit=limit)
    app.add("/x", echo, methods=("POST",))
    assert (await call(app, "POST", "/x", body=b"0123456789")).body == b"0123456789"


# Errors


class TableIsLost(TsdbError):
    from tsdb.errors import Status

    status = Status.TABLE_NOT_FOUND


async def fail_with_our_error(request: Request) -> Response:
    raise TableIsLost("no table 'é'\n", hint="create it")


async def test_an_error_is_answered_by_the_table_with_code_and_message() -> None:
    app = make_app()
    app.add("/x", fail_with_our_error)
    answer = await call(app, "GET", "/x")
    assert answer.status == 400
    body = answer.json()
    assert list(body) == ["code", "error", "execution_time_ms"]
    assert (body["code"], body["error"]) == (4001, "no table 'é'\n; create it")
    assert isinstance(body["execution_time_ms"], int)
    assert answer.headers["content-type"] == "application/json"
    for prefix in ("x-tsdb", "x-greptime"):
        assert answer.headers[f"{prefix}-err-code"] == "4001"
        assert answer.headers[f"{prefix}-err-msg"].startswith(
            "error: no table '\\xe9'\\n; create it, execution_time_ms: "
        )


async def test_a_route_can_choose_the_short_error_body() -> None:
    app = make_app()
    app.add("/x", fail_with_our_error, error_body=short_error_body)
    assert (await call(app, "GET", "/x")).json() == {"error": "no table 'é'\n; create it"}


async def test_a_long_message_is_complete_in_the_body_and_cut_in_the_header() -> None:
    async def fail(request: Request) -> Response:
        raise InvalidSyntax("\n" * 5_000)

    app = make_app()
    app.add("/x", fail)
    answer = await call(app, "GET", "/x")
    assert len(answer.json()["error"]) == 5_000
    assert len(answer.headers["x-tsdb-err-msg"]) < 1_100


async def test_an_error_message_may_hold_any_text() -> None:
    async def fail(request: Request) -> Response:
        raise InvalidSyntax("near \udcff")

    app = make_app()
    app.add("/x", fail)
    assert (await call(app, "GET", "/x")).json()["error"] == "near \\udcff"


async def test_a_bug_is_500_that_tells_nothing_and_a_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(request: Request) -> Response:
        raise KeyError("inner secret")

    app = make_app()
    app.add("/x", fail)
    answer = await call(app, "GET", "/x")
    assert answer.status == 500
    assert answer.json()["code"] == 1003
    assert b"secret" not in answer.body
    assert "secret" not in str(answer.headers)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert "inner secret" in str(record.exc_info[1])


@pytest.mark.parametrize(("error", "is_logged"), [(InvalidSyntax, False), (DeadlineExceeded, True)])
async def test_only_faults_of_the_server_are_logged_as_errors(
    error: type[TsdbError], is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(request: Request) -> Response:
        raise error("no")

    app = make_app()
    app.add("/x", fail)
    with caplog.at_level(logging.DEBUG):
        await call(app, "GET", "/x")
    assert [record.levelno >= logging.ERROR for record in caplog.records] == [is_logged]


# Timeouts


async def test_a_request_that_takes_too_long_is_408_and_says_what_allows_more_time() -> None:
    app = make_app(timeout="10ms")
    app.add("/x", wait_for_ever)
    answer = await call(app, "GET", "/x")
    assert (answer.status, answer.json()["code"]) == (408, 1008)
    assert "http.timeout" in answer.json()["error"]
    assert "x-tsdb-timeout" in answer.json()["error"]
    assert answer.is_complete


async def test_a_route_can_have_another_timeout_status() -> None:
    app = make_app(timeout="10ms")
    app.add("/x", wait_for_ever, timeout_status=504)
    assert (await call(app, "GET", "/x")).status == 504


async def test_a_body_that_does_not_come_is_408() -> None:
    app = make_app(timeout="10ms")
    app.add("/x", echo, methods=("POST",))
    exchange = Exchange(app, "POST", "/x", {"content-length": "10"})
    exchange.feed(b"half", more=True)
    assert (await exchange.finish()).status == 408


@pytest.mark.parametrize("header", ["x-tsdb-timeout", "X-Greptime-Timeout"])
async def test_a_header_shortens_the_timeout(header: str) -> None:
    app = make_app(timeout="1h")
    app.add("/x", wait_for_ever)
    assert (await call(app, "GET", "/x", headers={header: "10ms"})).status == 408


async def slow(request: Request) -> Response:
    await asyncio.sleep(0.15)
    return Response.text("done")


@pytest.mark.parametrize("value", ["0s", "0", "120s"])
async def test_a_header_lengthens_the_timeout_or_removes_it(value: str) -> None:
    app = make_app(timeout="10ms")
    app.add("/x", slow)
    assert (await call(app, "GET", "/x", headers={"x-tsdb-timeout": value})).body == b"done"


async def test_a_route_can_be_exempt_from_the_timeout() -> None:
    app = make_app(timeout="10ms")
    app.add("/x", slow, has_timeout=False)
    assert (await call(app, "GET", "/x", headers={"x-tsdb-timeout": "10ms"})).body == b"done"


async def test_a_timeout_header_that_cannot_be_read_is_400() -> None:
    app = make_app()
    app.add("/x", hello)
    answer = await call(app, "GET", "/x", headers={"x-tsdb-timeout": "soon"})
    assert answer.status == 400
    assert answer.json()["error"].startswith("the header x-tsdb-timeout: 'soon' is not a duration")


async def test_a_timeout_error_of_the_handler_itself_is_not_the_timeout_of_the_request() -> None:
    async def fail(request: Request) -> Response:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()
        raise AssertionError

    app = make_app(timeout="1h")
    app.add("/x", fail)
    assert (await call(app, "GET", "/x")).status == 500


async def test_a_handler_that_answers_although_it_was_cancelled_is_heard() -> None:
    async def stubborn(request: Request) -> Response:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Response.text("all the same")

    app = make_app(timeout="10ms")
    app.add("/x", stubborn)
    exchange = Exchange(app, "GET", "/x", {})
    assert (await exchange.finish()).body == b"all the same"
    assert exchange.task.cancelling() == 0


# Cancellation and clients that leave


async def test_a_cancellation_from_outside_is_never_swallowed() -> None:
    app = make_app(timeout="1h")
    app.add("/x", wait_for_ever)
    exchange = Exchange(app, "GET", "/x", {})
    await asyncio.sleep(0)
    assert app.in_flight == 1
    exchange.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exchange.task
    assert exchange.answer.status == 0
    assert app.in_flight == 0


async def test_a_client_that_leaves_cancels_the_handler() -> None:
    cancelled = asyncio.Event()

    async def handler(request: Request) -> Response:
        await request.body()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    app = make_app()
    app.add("/gone", handler, methods=("POST",))
    before = sample("tsdb_servers_http_requests_total", method="POST", path="/gone", code="499")
    exchange = Exchange(app, "POST", "/gone", {"content-length": "4"})
    exchange.feed(b"body")
    exchange.leave()
    assert (await exchange.finish()).status == 0
    assert cancelled.is_set()
    assert sample("tsdb_servers_http_requests_total", method="POST", path="/gone", code="499") == before + 1


async def test_a_client_that_leaves_within_its_body_is_not_answered() -> None:
    app = make_app()
    app.add("/x", echo, methods=("POST",))
    exchange = Exchange(app, "POST", "/x", {"content-length": "10"})
    exchange.feed(b"half", more=True)
    exchange.leave()
    assert (await exchange.finish()).status == 0


async def test_interrupted_requests_are_503_when_the_server_stops() -> None:
    app = make_app()
    app.add("/x", wait_for_ever)
    exchange = Exchange(app, "GET", "/x", {})
    await asyncio.sleep(0)
    app.interrupt_requests()
    answer = await exchange.finish()
    assert (answer.status, answer.json()["code"], answer.headers["retry-after"]) == (503, 1009, "1")


# Streams


async def test_a_stream_is_sent_piece_by_piece() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks(), content_type="text/csv")

    app = make_app()
    app.add("/x", handler)
    answer = await call(app, "GET", "/x")
    assert (answer.status, answer.body, answer.is_complete) == (200, b"one two", True)
    assert answer.headers == {"content-type": "text/csv"}
    assert (await call(app, "HEAD", "/x")).body == b""


async def test_an_error_before_the_first_piece_is_answered_as_an_error() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        raise InvalidSyntax("bad")
        yield b""

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    app = make_app()
    app.add("/x", handler)
    assert (await call(app, "GET", "/x")).status == 400


async def test_an_error_after_the_first_piece_leaves_the_answer_without_its_end() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        raise InvalidSyntax("bad")

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    app = make_app()
    app.add("/x", handler)
    answer = await call(app, "GET", "/x")
    assert (answer.status, answer.body, answer.is_complete) == (200, b"one", False)


@pytest.mark.parametrize("how", ["leaves", "times out"])
async def test_the_iterator_of_a_stream_is_closed_when_its_reader_is_gone(how: str) -> None:
    is_closed = False

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            is_closed = True

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    app = make_app(timeout="1h" if how == "leaves" else "10ms")
    app.add("/x", handler)
    exchange = Exchange(app, "GET", "/x", {})
    await asyncio.sleep(0.001)
    if how == "leaves":
        exchange.leave()
    answer = await exchange.finish()
    assert (answer.body, answer.is_complete) == (b"one", False)
    assert is_closed


async def test_a_stream_that_never_waits_still_notices_that_its_reader_left() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"x"

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    app = make_app()
    app.add("/x", handler)
    exchange = Exchange(app, "GET", "/x", {})
    exchange.leave()
    assert not (await exchange.finish()).is_complete


# Metrics


async def test_requests_are_counted_by_route_and_never_by_what_a_client_asked_for() -> None:
    app = make_app()
    app.add("/counted/*", hello)
    await call(app, "GET", "/counted/one")
    await call(app, "GET", "/counted/two")
    await call(app, "BREW", "/counted/three")
    await call(app, "GET", "/counted-elsewhere")
    name = "tsdb_servers_http_requests_total"
    assert sample(name, method="GET", path="/counted/*", code="200") == 2
    assert sample(name, method="other", path="/counted/*", code="405") == 1
    assert sample(name, method="GET", path="other", code="404") >= 1
    count = "tsdb_servers_http_requests_elapsed_seconds_count"
    assert sample(count, method="GET", path="/counted/*") == 2
    assert b"elsewhere" not in render()


async def test_requests_in_flight_are_counted() -> None:
    app = make_app()
    app.add("/x", wait_for_ever)
    exchanges = [Exchange(app, "GET", "/x", {}) for _ in range(3)]
    await asyncio.sleep(0)
    line = next(
        line for line in render().decode().splitlines() if line.startswith("tsdb_servers_http_requests_in_flight ")
    )
    assert float(line.split()[1]) >= 3
    app.interrupt_requests()
    for exchange in exchanges:
        await exchange.finish()


async def test_other_kinds_of_connections_are_ignored() -> None:
    await make_app()({"type": "websocket"}, pytest.fail, pytest.fail)  # type: ignore[arg-type]
