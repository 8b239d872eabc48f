"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side of one login. Without channel binding.

client-first    n,,n=,r=nonce                        the name is that of the start-up message
server-first    r=nonce+ours,s=salt,i=iterations
client-final    c=biws,r=nonce+ours,p=proof
server-final    v=signature
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from tsdb.auth import ScramVerifier
from tsdb.servers.postgres._errors import ProtocolViolation

MECHANISM = "SCRAM-SHA-256"
_NONCE_BYTES = 18


class ScramExchange:
    """One login: `challenge`, then `verify`."""

    def __init__(self, verifier: ScramVerifier, *, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._own_nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode("ascii")
        self._header = ""
        self._first = ""
        self._challenge = ""
        self._nonce = ""

    def challenge(self, client_first: bytes) -> bytes:
        """Read the first message of the client and return ours."""
        text = _ascii(client_first)
        flag, comma, rest = text.partition(",")
        _, second, bare = rest.partition(",")
        if flag.startswith("p="):
            raise ProtocolViolation("channel binding is not offered")
        if flag not in ("n", "y") or not comma or not second:
            raise ProtocolViolation("malformed SCRAM message")
        attributes = _attributes(bare)
        nonce = attributes.get("r", "")
        if "m" in attributes or "n" not in attributes or not nonce:
            raise ProtocolViolation("malformed SCRAM message")
        self._header = text[: len(text) - len(bare)]
        self._first = bare
        self._nonce = nonce + self._own_nonce
        salt = base64.b64encode(self._verifier.salt).decode("ascii")
        self._challenge = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._challenge.encode("ascii")

    def verify(self, client_final: bytes) -> bytes | None:
        """Read the last message of the client; return ours if the proof is right, None if not."""
        text = _ascii(client_final)
        bare, found, proof_text = text.rpartition(",p=")
        attributes = _attributes(bare)
        header = base64.b64encode(self._header.encode("ascii")).decode("ascii")
        if not found or attributes.get("c") != header or attributes.get("r") != self._nonce:
            raise ProtocolViolation("malformed SCRAM message")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProtocolViolation("malformed SCRAM message") from error
        said = ",".join((self._first, self._challenge, bare)).encode("ascii")
        stored = self._verifier.stored_key
        mask = hmac.digest(stored, said, "sha256")
        client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=False))
        is_right = len(proof) == len(mask) and hmac.compare_digest(hashlib.sha256(client_key).digest(), stored)
        if not is_right:
            return None
        signature = hmac.digest(self._verifier.server_key, said, "sha256")
        return b"v=" + base64.b64encode(signature)


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError as error:
        raise ProtocolViolation("malformed SCRAM message") from error


def _attributes(text: str) -> dict[str, str]:
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if len(name) != 1 or not equals:
            raise ProtocolViolation("malformed SCRAM message")
        found[name] = value
    return found
