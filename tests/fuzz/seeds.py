"""Conversations that are right, one list per port: what is sent, message by message. Fuzzing starts from them."""

from __future__ import annotations

import ssl
import struct
from contextlib import suppress

Conversation = tuple[bytes, ...]


def http() -> list[Conversation]:
    def request(line: str, body: bytes = b"", *headers: str) -> bytes:
        head = [line, "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body

    protobuf = "Content-Type: application/x-protobuf"
    form = "Content-Type: application/x-www-form-urlencoded"
    return [
        (request("GET /v1/sql?sql=SELECT%201 HTTP/1.1"),),
        (request("POST /v1/sql HTTP/1.1", b"sql=SELECT+1%3B+SHOW+TABLES", form),),
        (request("POST /v1/influxdb/write?db=public HTTP/1.1", b'fuzz,host=a v=1.5,i=2i,s="x" 1700000000000000000'),),
        (request("POST /v1/opentsdb/api/put HTTP/1.1", b'{"metric":"fuzz_o","timestamp":1,"value":2,"tags":{}}'),),
        (request("POST /v1/prometheus/write HTTP/1.1", b"\x10\x3c\x0a\x0e\x0a\x0c", "Content-Encoding: snappy"),),
        (request("POST /v1/otlp/v1/metrics HTTP/1.1", b"\n\x04\x12\x02\x12\x00", protobuf),),
        (request("GET /v1/prometheus/api/v1/query?query=up&time=1 HTTP/1.1"),),
        (b"POST /v1/sql HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"c\r\nsql=SELECT+1\r\n0\r\n\r\n"),
    ]


def tls() -> list[Conversation]:
    """The first message of a client that wants TLS, alone and with one that belongs inside of it."""
    made, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    client = made.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    return [(hello,), (hello, b"\x14\x03\x03\x00\x01\x01"), (hello, http()[0][0]), http()[0]]


def mysql() -> list[Conversation]:
    def packet(payload: bytes, number: int = 0) -> bytes:
        return len(payload).to_bytes(3, "little") + bytes((number,)) + payload

    capabilities = 0x0000_A28D | 1 << 16 | 1 << 17 | 1 << 19
    login = packet(
        capabilities.to_bytes(4, "little")
        + (1 << 24).to_bytes(4, "little")
        + b"\x2d"
        + bytes(23)
        + b"me\x00\x00public\x00mysql_native_password\x00",
        1,
    )
    return [
        (login, packet(b"\x03SELECT 1")),
        (login, packet(b"\x16SELECT ?"), packet(b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\x05\0\0\0\0\0\0\0")),
        (login, packet(b"\x02public"), packet(b"\x0e"), packet(b"\x03SHOW TABLES"), packet(b"\x01")),
        (login, packet(b"\x04t\0"), packet(b"\x18\x01\0\0\0\0\0data"), packet(b"\x19\x01\0\0\0"), packet(b"\x1f")),
    ]


def postgres() -> list[Conversation]:
    def message(tag: bytes, body: bytes = b"") -> bytes:
        return tag + struct.pack("!i", len(body) + 4) + body

    pairs = b"user\0me\0database\0public\0\0"
    startup = struct.pack("!ii", len(pairs) + 8, 196608) + pairs
    parse = message(b"P", b"\0SELECT $1::int\0\0\1\0\0\0\x17")
    bind = message(b"B", b"\0\0\0\1\0\0\0\1\0\0\0\x015\0\0")
    numeric = struct.pack("!hhHhh", 1, 0, 0, 0, 7)
    row = struct.pack("!hi1si", 3, 1, b"a", len(numeric)) + numeric + struct.pack("!iq", 8, 1)
    return [
        (startup, message(b"Q", b"SELECT 1; SELECT 2\0")),
        (startup, parse + message(b"D", b"S\0") + bind + message(b"E", b"\0\0\0\0\0") + message(b"S")),
        (startup, message(b"Q", b"COPY (SELECT 1) TO STDOUT\0"), message(b"X")),
        (startup, message(b"Q", b"COPY fuzzed FROM STDIN\0"), message(b"d", b"1\t2\n"), message(b"c")),
        (
            startup,
            message(b"Q", b"CREATE TABLE IF NOT EXISTS fuzzed (k STRING, n DECIMAL(9, 2), ts TIMESTAMP TIME INDEX)\0"),
            message(b"Q", b"COPY fuzzed FROM STDIN (FORMAT BINARY)\0"),
            message(b"d", b"PGCOPY\n\xff\r\n\0" + bytes(8) + row * 3 + b"\xff\xff"),
            message(b"c"),
        ),
        (struct.pack("!ii", 8, 80877103), startup),
        (struct.pack("!iiii", 16, 80877102, 1, 2),),
    ]


def grpc() -> list[Conversation]:
    def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body

    def header(name: str, value: str) -> bytes:
        return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()

    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)

    def call(path: str, body: bytes) -> bytes:
        fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers"}
        heads = b"".join(header(*each) for each in {**fields, "content-type": "application/grpc"}.items())
        data = b"\0" + struct.pack("!I", len(body)) + body
        return frame(1, 4, 1, heads) + frame(0, 1, 1, data)

    return [
        (preface, call("/greptime.v1.HealthCheck/HealthCheck", b"")),
        (preface, call("/greptime.v1.GreptimeDatabase/Handle", b"\x1a\x0a\x0a\x08SELECT 1")),
        (preface, call("/arrow.flight.protocol.FlightService/DoGet", b"\x0a\x0c\x1a\x0a\x0a\x08SELECT 1")),
        (preface, call("/greptime.v1.PrometheusGateway/Handle", b"\x12\x05\x0a\x011\x12\x01")),
        (preface, frame(6, 0, 0, b"12345678"), frame(8, 0, 0, b"\0\0\1\0"), frame(7, 0, 0, bytes(8))),
    ]


def opentsdb() -> list[Conversation]:
    return [
        (b"put fuzz_t 1700000000 1 host=a\n",),
        (b"put fuzz_t 1700000000 1.5 host=a dc=b\nput fuzz_t 1700000001 2 host=b\n", b"version\n"),
        (b"put\n", b"nonsense\n", b"exit\n"),
    ]
