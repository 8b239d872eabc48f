"""Password authentication of MySQL clients.

    mysql_native_password     20 bytes that prove the password
    caching_sha2_password     32 bytes that prove it; if they cannot be verified, the password itself is requested,
                              plain inside TLS, otherwise encrypted with the RSA key of the server

A client that proposes another plugin, or whose own differs from that of the greeting, is sent an auth switch request,
so that its answer is always one to a known challenge. A challenge is used once.
"""

from __future__ import annotations

import threading

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tsdb.auth import Authenticator, AuthError, Identity, TooManyFailedLogins
from tsdb.servers._steps import StepPool
from tsdb.servers.mysql._channel import PacketChannel
from tsdb.servers.mysql._handshake import CACHING_SHA2, NATIVE, LoginRequest, encode_auth_switch, make_challenge
from tsdb.servers.mysql._protocol import WireError

ANSWER_BYTES_MAX = 64 << 10
"""No packet of a client is larger before it has logged in."""
_FAST_AUTH_OK = b"\x01\x03"
_FULL_AUTH = b"\x01\x04"
_MORE_DATA = b"\x01"
_KEY_REQUEST = b"\x02"
_KEY_BITS = 2048


class LoginFailed(WireError):
    """The credentials are wrong, or there is no such user."""

    def __init__(self, login: LoginRequest) -> None:
        super().__init__(
            1698, "28000", f'Authenticate failed, user: "{login.user[:128]}", auth_plugin: "{login.plugin[:64]}"'
        )


class RsaKey:
    """The key with which clients encrypt passwords where there is no TLS; made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: rsa.RSAPrivateKey | None = None

    def public_pem(self) -> bytes:
        return self._private().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def decrypt(self, message: bytes) -> bytes | None:
        """Return what was encrypted, None if it was not encrypted with this key."""
        try:
            return self._private().decrypt(message, padding.OAEP(padding.MGF1(SHA1()), SHA1(), None))
        except (ValueError, UnsupportedAlgorithm):
            return None

    def _private(self) -> rsa.RSAPrivateKey:
        with self._lock:
            if self._key is None:
                self._key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
            return self._key


class LoginDesk:
    """Lets clients log in."""

    def __init__(self, authenticator: Authenticator, key: RsaKey, threads: StepPool, packet_seconds_max: float) -> None:
        self._authenticator = authenticator
        self._key = key
        self._threads = threads
        self._packet_seconds_max = packet_seconds_max

    async def log_in(
        self, channel: PacketChannel, login: LoginRequest, *, challenge: bytes | None, greeted_with: str, client: str
    ) -> Identity:
        """Return who the client is; LoginFailed if it cannot prove it. Without a challenge it is given a new one."""
        if not self._authenticator.is_enabled:
            if login.plugin == CACHING_SHA2 and login.answer.strip(b"\x00"):
                await channel.send(_FAST_AUTH_OK)
            return self._authenticator.check_password(login.user, b"", client=client)
        if challenge is None or login.plugin != greeted_with or not login.answer:
            login.plugin = login.plugin if login.plugin in (NATIVE, CACHING_SHA2) else greeted_with
            challenge = make_challenge()
            await channel.send(encode_auth_switch(login.plugin, challenge))
            login.answer = await self._read(channel)
        try:
            if login.plugin == NATIVE:
                return await self._native(login, challenge, client)
            return await self._caching_sha2(channel, login, challenge, client)
        except TooManyFailedLogins:
            raise
        except AuthError as error:
            raise LoginFailed(login) from error

    async def _native(self, login: LoginRequest, challenge: bytes, client: str) -> Identity:
        authenticator = self._authenticator
        return await self._threads.run(
            lambda: authenticator.check_mysql_native(login.user, challenge, login.answer, client=client)
        )

    async def _caching_sha2(
        self, channel: PacketChannel, login: LoginRequest, challenge: bytes, client: str
    ) -> Identity:
        authenticator = self._authenticator
        found = await self._threads.run(
            lambda: authenticator.check_caching_sha2(login.user, challenge, login.answer, client=client)
        )
        if found is not None:
            await channel.send(_FAST_AUTH_OK)
            return found
        await channel.send(_FULL_AUTH)
        password = await self._read_password(channel, challenge)
        if password is None:
            raise LoginFailed(login)
        return await self._threads.run(lambda: authenticator.check_password(login.user, password, client=client))

    async def _read_password(self, channel: PacketChannel, challenge: bytes) -> bytes | None:
        packet = await self._read(channel)
        if channel.is_encrypted:
            return packet.removesuffix(b"\x00")
        if packet == _KEY_REQUEST:
            pem = await self._threads.run(self._key.public_pem)
            await channel.send(_MORE_DATA + pem)
            packet = await self._read(channel)
        masked = await self._threads.run(lambda: self._key.decrypt(packet))
        if masked is None:
            return None
        plain = bytes(byte ^ challenge[at % len(challenge)] for at, byte in enumerate(masked))
        return plain.removesuffix(b"\x00")

    async def _read(self, channel: PacketChannel) -> bytes:
        return await channel.read(bytes_max=ANSWER_BYTES_MAX, wait_seconds=self._packet_seconds_max)
