"""The forms in which a secret can be kept, and which login each of them can serve.

| form | password | MySQL native | MySQL caching_sha2 | SCRAM |
|---|---|---|---|---|
| `plain:` | yes | yes | yes | yes |
| `pbkdf2_sha256:` | yes | no | full password | no |
| `mysql_native_password:` | yes | yes | full password | no |
| `pg_scram_sha256:` | yes | no | full password | yes |
| stored (of SQL's users) | yes | yes | yes | yes |

A challenge-response login needs the very hash that its protocol is made of, so no single hash serves all. `iterations`
is the work of PBKDF2 that one check of a password takes: checks are padded by it, so that all take the same time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Protocol

from tsdb.auth._scram import ITERATIONS, SALT_BYTES, ScramVerifier, make_verifier, prepared
from tsdb.errors import InvalidArguments

ITERATIONS_MAX = 10_000_000
"""More would let one login keep a processor busy for seconds."""
_SHA1_BYTES, _SHA256_BYTES = 20, 32
_SALT_BYTES_MAX = 1024


class Secret(Protocol):
    """What the server knows of a password."""

    @property
    def iterations(self) -> int:
        """Rounds of PBKDF2-HMAC-SHA256 that `matches` takes."""

    @property
    def native_hash(self) -> bytes | None:
        """SHA1(SHA1(password)), None if it is not known."""

    @property
    def caching_hash(self) -> bytes | None:
        """SHA256(SHA256(password)), None if it is not known."""

    @property
    def serves_scram(self) -> bool:
        """Whether `verifier` gives one."""

    def matches(self, password: bytes) -> bool: ...

    def verifier(self, salt: bytes) -> ScramVerifier | None:
        """What SCRAM needs; the salt is for secrets that have none of their own."""


@dataclass(frozen=True, slots=True)
class PlainSecret:
    """The password itself."""

    password: bytes
    iterations = 0
    serves_scram = True

    @property
    def native_hash(self) -> bytes | None:
        return native_hash(self.password)

    @property
    def caching_hash(self) -> bytes | None:
        return caching_hash(self.password)

    def matches(self, password: bytes) -> bool:
        # Of digests, because the comparison of texts tells how long they are.
        return hmac.compare_digest(hashlib.sha256(self.password).digest(), hashlib.sha256(password).digest())

    def verifier(self, salt: bytes) -> ScramVerifier | None:
        return make_verifier(self.password, salt)


@dataclass(frozen=True, slots=True)
class Pbkdf2Secret:
    """A hash that no challenge-response protocol uses: good for passwords that are sent as they are."""

    iterations: int
    salt: bytes
    hash: bytes
    serves_scram = False
    native_hash = None
    caching_hash = None

    def matches(self, password: bytes) -> bool:
        found = hashlib.pbkdf2_hmac("sha256", password, self.salt, self.iterations)
        return hmac.compare_digest(self.hash, found)

    def verifier(self, salt: bytes) -> ScramVerifier | None:
        return None


@dataclass(frozen=True, slots=True)
class NativeSecret:
    """What MySQL keeps for mysql_native_password."""

    hash: bytes
    iterations = 0
    serves_scram = False
    caching_hash = None

    @property
    def native_hash(self) -> bytes | None:
        return self.hash

    def matches(self, password: bytes) -> bool:
        return hmac.compare_digest(self.hash, native_hash(password))

    def verifier(self, salt: bytes) -> ScramVerifier | None:
        return None


@dataclass(frozen=True, slots=True)
class ScramSecret:
    """What PostgreSQL keeps."""

    scram: ScramVerifier
    serves_scram = True

    @property
    def native_hash(self) -> bytes | None:
        return None

    @property
    def caching_hash(self) -> bytes | None:
        return None

    @property
    def iterations(self) -> int:
        return self.scram.iterations

    def matches(self, password: bytes) -> bool:
        found = make_verifier(password, self.scram.salt, self.scram.iterations)
        return hmac.compare_digest(self.scram.stored_key, found.stored_key)

    def verifier(self, salt: bytes) -> ScramVerifier | None:
        return self.scram


@dataclass(frozen=True, slots=True)
class StoredSecret(ScramSecret):
    """All that the protocols need, and no password: what is kept of the users that SQL makes."""

    native: bytes
    caching: bytes

    @property
    def native_hash(self) -> bytes | None:
        return self.native

    @property
    def caching_hash(self) -> bytes | None:
        return self.caching


def native_hash(password: bytes) -> bytes:
    return hashlib.sha1(hashlib.sha1(password).digest()).digest()


def caching_hash(password: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(password).digest()).digest()


def stored_secret(password: str) -> StoredSecret:
    """Make what is kept of a new password."""
    raw = password.encode("utf-8")
    scram = make_verifier(raw, secrets.token_bytes(SALT_BYTES), ITERATIONS)
    return StoredSecret(scram, native_hash(raw), caching_hash(raw))


def spend(password: bytes, iterations: int) -> None:
    """Work for nothing, so that a check takes as long as any other."""
    if iterations > 0:
        hashlib.pbkdf2_hmac("sha256", prepared(password), b"no salt", iterations)


def parse_secret(text: str) -> Secret:
    """Read a secret as a user file has it: a known form, else the password itself. Errors never repeat it."""
    form, colon, rest = text.partition(":")
    if not colon or form not in _FORMS:
        return PlainSecret(text.encode("utf-8"))
    return _FORMS[form](rest)


def _parse_plain(text: str) -> Secret:
    if not text:
        raise InvalidArguments("the password after plain: is empty")
    return PlainSecret(text.encode("utf-8"))


def _parse_pbkdf2(text: str) -> Secret:
    parts = text.split(":")
    if len(parts) != 3:
        raise InvalidArguments("expected pbkdf2_sha256:<iterations>:<salt in hex>:<hash in hex>")
    return Pbkdf2Secret(_iterations(parts[0]), _salt(parts[1]), _hex(parts[2], _SHA256_BYTES, "the hash"))


def _parse_native(text: str) -> Secret:
    # MySQL itself writes a star before the digits.
    return NativeSecret(_hex(text.removeprefix("*"), _SHA1_BYTES, "the hash of mysql_native_password"))


def _parse_scram(text: str) -> Secret:
    parts = text.split(":")
    if len(parts) != 4:
        raise InvalidArguments(
            "expected pg_scram_sha256:<iterations>:<salt in hex>:<StoredKey in hex>:<ServerKey in hex>"
        )
    stored, server = _hex(parts[2], _SHA256_BYTES, "StoredKey"), _hex(parts[3], _SHA256_BYTES, "ServerKey")
    return ScramSecret(ScramVerifier(_salt(parts[1]), _iterations(parts[0]), stored, server))


_FORMS = {
    "plain": _parse_plain,
    "pbkdf2_sha256": _parse_pbkdf2,
    "mysql_native_password": _parse_native,
    "pg_scram_sha256": _parse_scram,
}


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= ITERATIONS_MAX):
        raise InvalidArguments(f"the number of iterations must be between 1 and {ITERATIONS_MAX}")
    return int(text)


def _salt(text: str) -> bytes:
    salt = _hex(text, None, "the salt")
    if not salt or len(salt) > _SALT_BYTES_MAX:
        raise InvalidArguments(f"the salt must have between 1 and {_SALT_BYTES_MAX} bytes")
    return salt


def _hex(text: str, length: int | None, what: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        raise InvalidArguments(f"{what} is not hexadecimal") from None
    if length is not None and len(found) != length:
        raise InvalidArguments(f"{what} has {len(found)} bytes, expected {length}")
    return found
