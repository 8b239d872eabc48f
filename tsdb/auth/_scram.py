"""The arithmetic of SCRAM-SHA-256 (RFC 5802, RFC 7677): what a server keeps of a password, and how a text becomes one.

PostgreSQL's clients prepare a password with SASLprep (RFC 4013) before they hash it, and take it as it is where that is
not possible; so do we, or passwords with letters beyond ASCII would never match.
"""

from __future__ import annotations

import hashlib
import hmac
import stringprep
import unicodedata
from dataclasses import dataclass

SALT_BYTES = 16
ITERATIONS = 4096
"""What PostgreSQL itself takes; every client can do that many in milliseconds."""


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """What a server needs to check a login by SCRAM-SHA-256, and cannot log in with itself."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def make_verifier(password: bytes, salt: bytes, iterations: int = ITERATIONS) -> ScramVerifier:
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    return ScramVerifier(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def prepared(password: bytes) -> bytes:
    """Return a password as clients hash it."""
    if password.isascii():
        return password
    try:
        text = password.decode("utf-8")
    except UnicodeDecodeError:
        return password
    folded = _saslprep(text)
    return password if folded is None else folded.encode("utf-8")


_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def _saslprep(text: str) -> str | None:
    """Fold a text by SASLprep; None if it has what SASLprep forbids."""
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    folded = unicodedata.normalize("NFKC", mapped)
    if not folded or any(is_in(char) for char in folded for is_in in _PROHIBITED):
        return None
    if any(stringprep.in_table_d1(char) for char in folded):
        is_mixed = any(stringprep.in_table_d2(char) for char in folded)
        if is_mixed or not (stringprep.in_table_d1(folded[0]) and stringprep.in_table_d1(folded[-1])):
            return None
    return folded
