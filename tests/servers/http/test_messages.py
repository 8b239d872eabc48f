from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import BodyTooLarge, InvalidArguments
from tsdb.servers.http import ClientDisconnected, Headers, Params, Request, Response


def make_request(*messages: dict[str, object], headers: tuple[tuple[bytes, bytes], ...] = (), limit: int = 0):  # type: ignore[no-untyped-def]
    pending = list(messages)

    async def receive():  # type: ignore[no-untyped-def]
        return pending.pop(0)

    scope = {"method": "POST", "path": "/x", "query_string": b"a=1&b=&a=2", "headers": list(headers)}
    return Request(scope, receive, body_limit=limit)


def chunk(body: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


CHUNKED = ((b"transfer-encoding", b"chunked"),)


def test_headers_are_found_in_any_case() -> None:
    headers = Headers([(b"x-a", b"1"), (b"x-a", b"2"), (b"x-b", b"3")])
    assert headers.get("X-A") == "1"
    assert headers.get_all("x-A") == ["1", "2"]
    assert headers.get("missing") is None
    assert "X-B" in headers
    assert list(headers) == [("x-a", "1"), ("x-a", "2"), ("x-b", "3")]


def test_a_parameter_may_come_several_times() -> None:
    params = make_request().query
    assert params.get("a") == "1"
    assert params.get_all("a") == ["1", "2"]
    assert params.get("b") == ""
    assert params.get("c", "default") == "default"
    assert "b" in params
    assert "c" not in params
    assert len(params) == 3


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=20))
def test_parameters_are_read_back_as_they_were_encoded(pairs: list[tuple[str, str]]) -> None:
    encodable = [(k, v) for k, v in pairs if not any("\ud800" <= c <= "\udfff" for c in k + v)]
    assert list(Params.parse(urlencode(encodable).encode())) == encodable


@pytest.mark.parametrize(
    ("encoded", "problem"),
    [(b"a=\xff", "not valid UTF-8"), (b"&".join([b"a=1"] * 10_001), "more than 10000 parameters")],
)
def test_bad_parameters_are_refused(encoded: bytes, problem: str) -> None:
    with pytest.raises(InvalidArguments, match=problem):
        Params.parse(encoded)


async def test_a_body_is_gathered_and_can_be_asked_for_again() -> None:
    request = make_request(chunk(b"ab", more=True), chunk(b"cd", more=False), headers=CHUNKED)
    assert not request.is_body_complete
    assert await request.body() == b"abcd"
    assert await request.body() == b"abcd"
    assert request.is_body_complete


async def test_a_client_is_waited_for_past_the_message_that_ends_its_body() -> None:
    sent = (chunk(b"ab", more=True), chunk(b"", more=False), {"type": "http.disconnect"})
    request = make_request(*sent, headers=((b"content-length", b"2"),))
    assert await request.body() == b"ab"
    await request.wait_disconnected()


async def test_a_request_without_a_body_reads_nothing() -> None:
    assert await make_request().body() == b""


async def test_a_body_can_be_streamed_once() -> None:
    request = make_request(chunk(b"ab", more=True), chunk(b"", more=True), chunk(b"cd", more=False), headers=CHUNKED)
    assert [piece async for piece in request.stream()] == [b"ab", b"cd"]
    with pytest.raises(RuntimeError, match="already taken"):
        await request.body()


async def test_a_body_over_the_limit_is_refused_while_it_arrives() -> None:
    request = make_request(chunk(b"abc", more=True), chunk(b"d", more=True), headers=CHUNKED, limit=3)
    with pytest.raises(BodyTooLarge):
        await request.body()


@pytest.mark.parametrize(("length", "is_refused"), [(b"3", False), (b"4", True)])
def test_a_declared_length_over_the_limit_is_refused(length: bytes, is_refused: bool) -> None:
    request = make_request(headers=((b"content-length", length),), limit=3)
    if is_refused:
        with pytest.raises(BodyTooLarge):
            request.check_declared_length()
    else:
        request.check_declared_length()


def test_a_declared_length_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="Content-Length"):
        make_request(headers=((b"content-length", b"-1"),), limit=3).check_declared_length()


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_noticed() -> None:
    request = make_request(chunk(b"ab", more=True), {"type": "http.disconnect"}, headers=CHUNKED)
    with pytest.raises(ClientDisconnected):
        await request.body()


def test_responses_say_what_they_carry() -> None:
    assert Response.text("é").raw_headers == [(b"content-type", b"text/plain; charset=utf-8")]
    assert Response.text("é").body == "é".encode()
    answer = Response.json({"a": 1}, status=201, headers=[("X-A", "b")])
    assert (answer.status, answer.body) == (201, b'{"a":1}')
    assert answer.raw_headers == [(b"x-a", b"b"), (b"content-type", b"application/json")]
