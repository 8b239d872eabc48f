"""Heads of requests and bodies in chunks, against what they were made of."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import ChunkedBody, LimitExceeded, parse_http_head

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=1, max_size=20)
VALUES = st.text("abc XYZ019,;=/\"'()éü", max_size=30).map(str.strip)
PLAIN = {"content-length", "transfer-encoding", "connection", "expect"}


@given(
    st.sampled_from(["GET", "POST", "DELETE"]),
    st.text(max_size=20),
    st.text("abc=&%+", max_size=20),
    st.lists(st.tuples(NAMES.filter(lambda name: name.lower() not in PLAIN), VALUES), max_size=8),
    st.binary(max_size=40),
)
def test_a_head_is_what_it_was_made_of(
    method: str, path: str, query: str, headers: list[tuple[str, str]], behind: bytes
) -> None:
    target = f"/{quote(path, safe='/')}?{query}"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode()
    found = parse_http_head(head + behind)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    assert found == (len(head), method, f"/{path}", query.encode(), raw, 0, True, True, False)
    for end in range(len(head)):
        assert parse_http_head(head[:end]) is None


@pytest.mark.parametrize(
    ("lines", "length", "is_kept", "is_modern", "expects"),
    [
        ("POST / HTTP/1.1\r\nContent-Length: 12\r\n", 12, True, True, False),
        ("POST / HTTP/1.1\r\nContent-Length: 12\r\nContent-Length: 12\r\n", 12, True, True, False),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n", None, True, True, False),
        ("GET / HTTP/1.1\r\nConnection: keep-alive, Close\r\n", 0, False, True, False),
        ("GET / HTTP/1.0\r\n", 0, False, False, False),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", 0, True, False, False),
        ("PUT / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n", 1, True, True, True),
    ],
)
def test_what_follows_a_head(lines: str, length: int | None, is_kept: bool, is_modern: bool, expects: bool) -> None:
    found = parse_http_head(f"{lines}\r\n".encode())
    assert found is not None
    assert found[5:] == (length, is_kept, is_modern, expects)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a%20b%2Fc", "/a b/c", b""),
        ("/100%", "/100%", b""),
        ("/%ff", "/\ufffd", b""),
        ("http://host:1/x?y=1", "/x", b"y=1"),
        ("http://host", "/", b""),
        ("*", "*", b""),
        ("/a?b?c", "/a", b"b?c"),
    ],
)
def test_targets(target: str, path: str, query: bytes) -> None:
    found = parse_http_head(f"GET {target} HTTP/1.1\r\n\r\n".encode())
    assert found is not None
    assert found[2:4] == (path, query)


@pytest.mark.parametrize(
    "head",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nName : value\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_two_could_read_differently_is_no_head(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_http_head(head)


def test_headers_are_counted() -> None:
    lines = b"".join(b"h%d: x\r\n" % number for number in range(101))
    with pytest.raises(LimitExceeded, match="more than 100 headers"):
        parse_http_head(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=6), st.lists(st.integers(0, 300)), st.binary(max_size=5))
def test_chunks_are_read_however_they_come(chunks: list[bytes], cuts: list[int], behind: bytes) -> None:
    sent = b"".join(b"%X;note=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    body, found = ChunkedBody(), b""
    for start, stop in pairwise(places):
        assert not body.is_done
        data = sent[start:stop] + (behind if stop == len(sent) else b"")
        piece, taken = body.feed(data)
        assert taken == stop - start
        found += piece
    assert body.is_done
    assert found == b"".join(chunks)


@pytest.mark.parametrize(
    "sent",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"3\n",
        b"3\r\nabcd\r\n",
        b"1" * 20 + b"\r\n",
        b"1;" + b"x" * 9000,
        b"0\r\n" + b"x" * 9000,
    ],
)
def test_what_is_no_chunk(sent: bytes) -> None:
    body = ChunkedBody()
    with pytest.raises(ValueError, match="chunk"):
        body.feed(sent)
