"""Random and mutated packets: the server answers or closes, and goes on serving others."""

from __future__ import annotations

import os
import random
import socket
import time
from pathlib import Path

from tests.servers.mysql.raw_client import RawClient, login_packet
from tests.servers.mysql.served import Served, serving

SECONDS = float(os.environ.get("TSDB_FUZZ_SECONDS", "4"))
ANSWER_SECONDS_MAX = 10

SEEDS = [
    b"\x01",
    b"\x02public",
    b"\x03SELECT 1, 'a', NULL",
    b"\x03SELECT * FROM numbers LIMIT 3",
    b"\x03SET time_zone = '+01:00'",
    b"\x03/*!40101 SET NAMES utf8 */",
    b"\x03SELECT _binary'\\0\xff'",
    b"\x04numbers\x00",
    b"\x0c\x01\x00\x00\x00",
    b"\x0e",
    b"\x11me\x00\x00public\x00\x2d\x00mysql_native_password\x00",
    b"\x16SELECT ?, ? LIMIT ?",
    b"\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xfd\x00\x08\x00\x03\x00\x02ab" + bytes(8) + b"\x01\x00\x00\x00",
    b"\x18\x01\x00\x00\x00\x00\x00abc",
    b"\x19\x01\x00\x00\x00",
    b"\x1a\x01\x00\x00\x00",
    b"\x1b\x00\x00",
    b"\x1f",
]


def _mutated(packet: bytes, chance: random.Random) -> bytes:
    data = bytearray(packet)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        action = chance.randrange(4)
        if action == 0:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif action == 1:
            del data[at : at + chance.randrange(1, 9)]
        elif action == 2 and at < len(data):
            data[at] = chance.choice((0, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, chance.randrange(256)))
        else:
            data = data[:at]
        if not data:
            return b"\x0e"
    return bytes(data)


def _framed(payload: bytes, chance: random.Random) -> bytes:
    size = len(payload) if chance.random() < 0.97 else chance.randrange(1 << 24)
    number = 0 if chance.random() < 0.97 else chance.randrange(256)
    return size.to_bytes(3, "little") + bytes((number,)) + payload


def _attack(server: Served, chance: random.Random) -> None:
    """One connection that sends some packets, then says no more; the server must close it."""
    with RawClient(server.port, logs_in=False) as client:
        client.socket.settimeout(ANSWER_SECONDS_MAX)
        try:
            login = login_packet() if chance.random() < 0.7 else _mutated(login_packet(), chance)
            client.send(login, 1)
            for _ in range(chance.randrange(1, 12)):
                client.socket.sendall(_framed(_mutated(chance.choice(SEEDS), chance), chance))
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(1 << 16):
                pass
        except TimeoutError:
            raise AssertionError("neither an answer nor an end") from None
        except OSError:
            pass  # the server has closed the connection already


def test_no_packets_make_the_server_hang_or_stop_serving_others(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    with serving(tmp_path) as server:
        deadline, count = time.monotonic() + SECONDS, 0
        while time.monotonic() < deadline:
            _attack(server, chance)
            count += 1
            if count % 50 == 0:
                assert server.fetch("SELECT 1") == ((1,),)
        assert server.fetch("SELECT 1") == ((1,),)
        assert count > 10
        until = time.monotonic() + ANSWER_SECONDS_MAX
        while server.server.open_connections and time.monotonic() < until:
            time.sleep(0.01)
        assert server.server.open_connections == 0
        assert not server.database.services.processes.all()
