"""Bytes that nobody meant: every method answers or refuses, and the server goes on."""

from __future__ import annotations

import os
import random
import socket
import time

import grpc
import pytest

from tests.servers.grpc.running import RunningServer
from tests.servers.grpc.test_database import GOLDEN, HOST, TS, insert, rows
from tests.servers.grpc.test_login import METHODS
from tsdb.servers.grpc._errors import INTERNAL_ERROR
from tsdb.servers.grpc.proto import greptime_pb2 as v1

SECONDS = float(os.environ.get("TSDB_FUZZ_SECONDS", "3"))
"""For each test."""
WRITE = insert(rows("fuzzed", [HOST, TS], ["a", 1])).SerializeToString()
FAULTS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


def damaged(raw: bytes, chance: random.Random) -> bytes:
    made = bytearray(raw)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(made))
        action = chance.randint(0, 3)
        if action == 0 and made:
            made[at % len(made)] = chance.randint(0, 255)
        elif action == 1:
            made[at:at] = chance.randbytes(chance.randint(1, 8))
        elif action == 2:
            del made[at : at + chance.randint(1, 8)]
        else:
            made += made[at : at + 64]
    return bytes(made)


def requests() -> dict[str, list[bytes]]:
    found = {method: [request] for method, request in METHODS.items()}
    columns = v1.Column(column_name="v", datatype=v1.INT8, values=v1.Column.Values(i8_values=[1]), null_mask=b"\1")
    more = [
        v1.GreptimeRequest(
            inserts=v1.InsertRequests(inserts=[v1.InsertRequest(table_name="f", columns=[columns], row_count=2)])
        ),
        v1.GreptimeRequest(query=v1.QueryRequest(sql="SELECT 1")),
        v1.GreptimeRequest(ddl=v1.DdlRequest(create_database=v1.CreateDatabaseExpr(schema_name="f"))),
    ]
    found["greptime.v1.GreptimeDatabase/Handle"] += [GOLDEN, *(each.SerializeToString() for each in more)]
    found["grpc.health.v1.Health/Check"] = [b"\n\x01x"]
    found["greptime.v1.HealthCheck/HealthCheck"] = [b""]
    return found


@pytest.mark.parametrize("seed", range(2))
def test_damaged_messages_are_answered_or_refused(served: RunningServer, seed: int) -> None:
    chance, pool = random.Random(seed), requests()
    end = time.monotonic() + SECONDS
    with served.channel() as channel:
        while time.monotonic() < end:
            method = chance.choice(sorted(pool))
            raw = damaged(chance.choice(pool[method]), chance)
            answer = channel.unary_unary(f"/{method}").future(raw, timeout=20)
            assert answer.code() not in FAULTS, (method, raw.hex(), answer.details())
            assert answer.details() != INTERNAL_ERROR, (method, raw.hex())
        assert channel.unary_unary("/greptime.v1.GreptimeDatabase/Handle")(WRITE, timeout=20)


def test_damaged_frames_end_their_connection_alone(served: RunningServer) -> None:
    chance = random.Random(7)
    host, port = served.address.rsplit(":", 1)
    start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with socket.create_connection((host, int(port)), timeout=5) as opened:
            opened.settimeout(0.02)
            try:
                opened.sendall((start if chance.random() < 0.7 else b"") + chance.randbytes(chance.randint(0, 200)))
                while opened.recv(4096):
                    pass
            except (TimeoutError, ConnectionError):
                continue
    assert served.call("greptime.v1.GreptimeDatabase/Handle", WRITE)
