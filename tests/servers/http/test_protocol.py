"""HTTP/1.1 without a socket: heads, bodies and responses as bytes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.servers.http.wire._protocol import (
    HEAD_BYTES_MAX,
    BadHead,
    BodyReader,
    ResponseEncoder,
    encode_refusal,
    parse_head,
)


def test_a_head_is_known_when_its_last_byte_is_there() -> None:
    data = b"POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n12345"
    end = data.index(b"12345")
    for cut in range(1, end):
        assert parse_head(data[:cut]) is None, cut
    head = parse_head(data)
    assert head is not None
    assert (head.size, head.method, head.path, head.query, head.length) == (end, "POST", "/a b", b"x=1", 5)
    assert (head.is_kept, head.is_modern, head.expects) == (True, True, True)
    assert (b"host", b"h") in head.headers


@pytest.mark.parametrize(
    ("lines", "length", "is_kept", "is_modern"),
    [
        (b"GET / HTTP/1.1\r\n", 0, True, True),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n", 0, False, True),
        (b"GET / HTTP/1.0\r\n", 0, False, False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", 0, True, False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", None, True, True),
    ],
)
def test_what_a_head_says_of_the_body_and_the_connection(
    lines: bytes, length: int | None, is_kept: bool, is_modern: bool
) -> None:
    head = parse_head(lines + b"\r\n")
    assert head is not None
    assert (head.length, head.is_kept, head.is_modern) == (length, is_kept, is_modern)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        # Where two readers could see different ends of a body, neither may be believed.
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /" + b"a" * HEAD_BYTES_MAX, 414),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * HEAD_BYTES_MAX, 431),
    ],
)
def test_a_head_that_cannot_be_believed_is_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadHead) as caught:
        parse_head(data)
    assert caught.value.status == status
    refusal = encode_refusal(caught.value.status, str(caught.value))
    head, _, body = refusal.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close" in head
    assert b"\r\ncontent-length: %d" % len(body) in head


def _fed(reader: BodyReader, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Feed bytes in pieces; the body, and all that follows it."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    body = rest = b""
    for start, end in pairwise(edges):
        if reader.is_done:
            rest += data[start:end]
            continue
        piece, more = reader.feed(data[start:end])
        body, rest = body + piece, rest + more
    return body, rest


@given(body=st.binary(max_size=200), rest=st.binary(max_size=50), cuts=st.lists(st.integers(0, 500), max_size=8))
def test_a_body_of_known_length_may_come_in_any_pieces(body: bytes, rest: bytes, cuts: list[int]) -> None:
    reader = BodyReader(len(body))
    assert _fed(reader, body + rest, cuts) == (body, rest)
    assert reader.is_done


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    rest=st.binary(max_size=50),
    cuts=st.lists(st.integers(0, 500), max_size=8),
)
def test_a_body_in_chunks_may_come_in_any_pieces(chunks: list[bytes], rest: bytes, cuts: list[int]) -> None:
    data = b"".join(b"%x;a=b\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nx-trailer: 1\r\n\r\n"
    reader = BodyReader(None)
    assert _fed(reader, data + rest, cuts) == (b"".join(chunks), rest)
    assert reader.is_done


@pytest.mark.parametrize("data", [b"zz\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"fffffffffffffffff\r\n"])
def test_malformed_chunks_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        BodyReader(None).feed(data)


def test_framing_without_a_body_is_bounded() -> None:
    chunk = b"1;" + b"x" * 60 + b"\r\na\r\n"
    data = chunk * (2 * HEAD_BYTES_MAX // len(chunk))
    with pytest.raises(ValueError, match="too much between its chunks"):
        BodyReader(None).feed(data)


# Responses


def _encoder(*, is_head: bool = False, is_modern: bool = True, is_kept: bool = True) -> ResponseEncoder:
    return ResponseEncoder(is_head=is_head, is_modern=is_modern, is_kept=is_kept)


def _lines(head: bytes) -> list[bytes]:
    return re.sub(rb"date: [^\r]+\r\n", b"", head).split(b"\r\n")


def test_a_whole_response_has_its_length() -> None:
    encoder = _encoder()
    head = encoder.head(200, [(b"content-length", b"5")], is_whole=True)
    assert _lines(head) == [b"HTTP/1.1 200 OK", b"content-length: 5", b"", b""]
    assert encoder.frame(5, is_last=True) == (b"", b"")
    assert encoder.is_over
    assert encoder.is_kept


def test_a_stream_is_sent_in_chunks() -> None:
    encoder = _encoder()
    assert b"transfer-encoding: chunked\r\n" in encoder.head(200, [], is_whole=False)
    assert encoder.frame(16, is_last=False) == (b"10\r\n", b"\r\n")
    assert encoder.frame(0, is_last=False) == (b"", b"")
    assert not encoder.is_over
    assert encoder.frame(1, is_last=True) == (b"1\r\n", b"\r\n0\r\n\r\n")
    assert encoder.is_over


def test_a_stream_to_an_older_client_ends_with_the_connection() -> None:
    encoder = _encoder(is_modern=False)
    assert b"connection: close\r\n" in encoder.head(200, [], is_whole=False)
    assert encoder.frame(16, is_last=False) == (b"", b"")
    assert (encoder.is_kept, encoder.is_cut_unnoticed) == (False, True), "cut here, it would look complete"
    encoder.frame(0, is_last=True)
    assert not encoder.is_cut_unnoticed


@pytest.mark.parametrize(("status", "is_head"), [(204, False), (304, False), (200, True)])
def test_a_response_without_a_body_has_no_chunks(status: int, is_head: bool) -> None:
    encoder = _encoder(is_head=is_head)
    assert b"transfer-encoding" not in encoder.head(status, [], is_whole=False)
    assert encoder.frame(0, is_last=True) == (b"", b"")


def test_the_last_response_of_a_connection_says_so() -> None:
    encoder = _encoder()
    assert b"connection: close\r\n" in encoder.head(200, [], is_whole=True, ends_connection=True)
    assert not encoder.is_kept
    assert b"connection: keep-alive\r\n" in _encoder(is_modern=False).head(200, [], is_whole=True)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb"])
def test_no_header_can_hold_another(value: bytes) -> None:
    with pytest.raises(ValueError, match="line break"):
        _encoder().head(200, [(b"x", value)], is_whole=True)
