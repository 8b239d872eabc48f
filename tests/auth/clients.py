"""The other side of every login, written from the specifications and not from the server's code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from tsdb.auth import ScramVerifier


def native_answer(password: bytes, challenge: bytes) -> bytes:
    """mysql_native_password: SHA1(p) XOR SHA1(challenge + SHA1(SHA1(p)))."""
    first = hashlib.sha1(password).digest()
    mask = hashlib.sha1(challenge + hashlib.sha1(first).digest()).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


def caching_answer(password: bytes, challenge: bytes) -> bytes:
    """caching_sha2_password: SHA256(p) XOR SHA256(SHA256(SHA256(p)) + challenge)."""
    first = hashlib.sha256(password).digest()
    mask = hashlib.sha256(hashlib.sha256(first).digest() + challenge).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


def scram_succeeds(password: bytes, verifier: ScramVerifier, *, message: bytes = b"") -> bool:
    """Make the proof of a SCRAM client and check it, and the server's signature, as the two sides do."""
    message = message or os.urandom(32)
    salted = hashlib.pbkdf2_hmac("sha256", password, verifier.salt, verifier.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    recovered = bytes(a ^ b for a, b in zip(proof, hmac.digest(verifier.stored_key, message, "sha256"), strict=True))
    is_server_known = hmac.digest(salted, b"Server Key", "sha256") == verifier.server_key
    return hashlib.sha256(recovered).digest() == verifier.stored_key and is_server_known


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
