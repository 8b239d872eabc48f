"""The first packets of a connection: the server's greeting, the client's answer, the change of user."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from tsdb.servers.mysql._protocol import (
    CHALLENGE_BYTES,
    CHARSET_UTF8MB4,
    Capability,
    Reader,
    StatusFlag,
    WireError,
    decode_text,
)

SERVER_VERSION = "8.4.2"
"""The version that clients choose features by; `SELECT VERSION()` names this program."""
NATIVE = "mysql_native_password"
CACHING_SHA2 = "caching_sha2_password"
_PROTOCOL_VERSION = 10
_SHORT_CHALLENGE_BYTES = 8
_FILLER_BYTES = 23
_TLS_REQUEST_BYTES = 32


class BadHandshake(WireError):
    """The client's answer is none that this server understands."""

    def __init__(self, message: str = "Bad handshake") -> None:
        super().__init__(1043, "08S01", message)


@dataclass(slots=True)
class LoginRequest:
    """The login of a client, not verified."""

    user: str
    answer: bytes
    """To the challenge, made by the plugin."""
    plugin: str
    database: str
    capabilities: Capability


def make_challenge() -> bytes:
    """Return random bytes for a client to prove its password with; none is a zero, which would end them."""
    return bytes(1 + secrets.randbelow(126) for _ in range(CHALLENGE_BYTES))


def encode_greeting(*, connection_id: int, challenge: bytes, capabilities: Capability, plugin: str) -> bytes:
    """Return what the server says first."""
    flags = int(capabilities)
    return b"".join(
        (
            bytes((_PROTOCOL_VERSION,)),
            SERVER_VERSION.encode() + b"\x00",
            (connection_id & 0xFFFFFFFF).to_bytes(4, "little"),
            challenge[:_SHORT_CHALLENGE_BYTES] + b"\x00",
            (flags & 0xFFFF).to_bytes(2, "little"),
            bytes((CHARSET_UTF8MB4,)),
            int(StatusFlag.AUTOCOMMIT).to_bytes(2, "little"),
            (flags >> 16).to_bytes(2, "little"),
            bytes((CHALLENGE_BYTES + 1,)),
            bytes(10),
            challenge[_SHORT_CHALLENGE_BYTES:] + b"\x00",
            plugin.encode() + b"\x00",
        )
    )


def wants_tls(packet: bytes) -> bool:
    """Whether a client requests TLS: its answer then ends before the user name."""
    return len(packet) == _TLS_REQUEST_BYTES and bool(Capability(int.from_bytes(packet[:4], "little")) & Capability.SSL)


def parse_answer(packet: bytes) -> LoginRequest:
    """Read the client's answer to the greeting."""
    reader = Reader(packet)
    if reader.left < _TLS_REQUEST_BYTES:
        raise BadHandshake
    flags = Capability(reader.integer(4))
    if not flags & Capability.PROTOCOL_41:
        raise BadHandshake("this client is too old: the protocol of MySQL 4.1 is the oldest supported version")
    reader.take(4 + 1 + _FILLER_BYTES)  # the largest packet it takes, its character set
    user = decode_text(reader.until_zero())
    if flags & Capability.PLUGIN_AUTH_LENENC_DATA:
        answer = reader.counted()
    elif flags & Capability.SECURE_CONNECTION:
        answer = reader.take(reader.integer(1))
    else:
        answer = reader.until_zero()
    database = decode_text(reader.until_zero()) if flags & Capability.CONNECT_WITH_DB else ""
    plugin = decode_text(reader.until_zero()) if flags & Capability.PLUGIN_AUTH else NATIVE
    # What follows, attributes of the program, is of no use here.
    return LoginRequest(user, answer, plugin or NATIVE, database, flags)


def parse_change_user(packet: bytes, capabilities: Capability) -> LoginRequest:
    """Read COM_CHANGE_USER, its first byte passed."""
    reader = Reader(packet, 1)
    user = decode_text(reader.until_zero())
    answer = reader.take(reader.integer(1)) if reader.left else b""
    database = decode_text(reader.until_zero())
    plugin = NATIVE
    if reader.left >= 2:
        reader.take(2)
        if capabilities & Capability.PLUGIN_AUTH and reader.left:
            plugin = decode_text(reader.until_zero())
    return LoginRequest(user, answer, plugin or NATIVE, database, capabilities)


def encode_auth_switch(plugin: str, challenge: bytes) -> bytes:
    """Return the wish that the client proves its password by another plugin."""
    return b"\xfe" + plugin.encode() + b"\x00" + challenge + b"\x00"
