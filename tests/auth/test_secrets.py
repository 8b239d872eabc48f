"""Secrets: every form accepts its password and no other, and says which logins it can serve."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auth.clients import scram_succeeds
from tsdb.auth import Secret, parse_secret, stored_secret
from tsdb.errors import InvalidArguments

PASSWORD = "correct horse"
SALT = bytes(range(16))


def _native(password: str) -> str:
    return "mysql_native_password:" + hashlib.sha1(hashlib.sha1(password.encode()).digest()).hexdigest()


def _pbkdf2(password: str, iterations: int = 1000) -> str:
    found = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, iterations)
    return f"pbkdf2_sha256:{iterations}:{SALT.hex()}:{found.hex()}"


def _scram(password: str, iterations: int = 4096) -> str:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).hexdigest()
    return f"pg_scram_sha256:{iterations}:{SALT.hex()}:{stored}:{hmac.digest(salted, b'Server Key', 'sha256').hex()}"


FORMS = {
    "bare": (PASSWORD, True, True, True),
    "plain": (f"plain:{PASSWORD}", True, True, True),
    "native": (_native(PASSWORD), True, False, False),
    "pbkdf2": (_pbkdf2(PASSWORD), False, False, False),
    "scram": (_scram(PASSWORD), False, False, True),
}


@pytest.mark.parametrize(("text", "native", "caching", "scram"), FORMS.values(), ids=FORMS)
def test_a_form_accepts_its_password_alone_and_tells_what_it_serves(
    text: str, native: bool, caching: bool, scram: bool
) -> None:
    secret = parse_secret(text)
    assert secret.matches(PASSWORD.encode())
    for wrong in (b"", b"correct hors", b"correct horse ", b"Correct horse", text.encode() + b"x"):
        assert not secret.matches(wrong)
    assert (secret.native_hash is not None) == native
    assert (secret.caching_hash is not None) == caching
    assert secret.serves_scram == scram
    verifier = secret.verifier(SALT)
    assert (verifier is not None) == scram
    if verifier is not None:
        assert scram_succeeds(PASSWORD.encode(), verifier)
        assert not scram_succeeds(b"wrong", verifier)


def test_a_stored_secret_serves_every_login_and_holds_no_password() -> None:
    secret: Secret = stored_secret(PASSWORD)
    assert secret.matches(PASSWORD.encode())
    assert not secret.matches(b"wrong")
    assert secret.native_hash == hashlib.sha1(hashlib.sha1(PASSWORD.encode()).digest()).digest()
    assert secret.caching_hash == hashlib.sha256(hashlib.sha256(PASSWORD.encode()).digest()).digest()
    verifier = secret.verifier(b"")
    assert verifier is not None
    assert scram_succeeds(PASSWORD.encode(), verifier)
    assert PASSWORD not in repr(secret)
    assert stored_secret(PASSWORD) != secret, "each has its own salt"


def test_a_star_before_the_hash_is_how_mysql_itself_writes_it() -> None:
    assert parse_secret(_native(PASSWORD).replace(":", ":*")).matches(PASSWORD.encode())


@pytest.mark.parametrize("text", ["foo:bar", "http://x", "plain", "pbkdf2_sha1:1:00:00"])
def test_a_prefix_that_is_no_form_is_part_of_the_password(text: str) -> None:
    assert parse_secret(text).matches(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "plain:",
        "pbkdf2_sha256:1000:00",
        "pbkdf2_sha256:0:00:" + "00" * 32,
        "pbkdf2_sha256:99999999:00:" + "00" * 32,
        "pbkdf2_sha256:1e3:00:" + "00" * 32,
        "pbkdf2_sha256:1000::" + "00" * 32,
        "pbkdf2_sha256:1000:00:secretsecret",
        "pbkdf2_sha256:1000:00:00",
        "mysql_native_password:00",
        "mysql_native_password:secretsecret",
        "pg_scram_sha256:4096:00:00:00",
        "pg_scram_sha256:4096:00:" + "00" * 32,
        "pg_scram_sha256:4096:" + "00" * 2000 + ":" + "00" * 32 + ":" + "00" * 32,
    ],
)
def test_a_known_form_that_is_wrong_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_secret(text)
    value = text.partition(":")[2]
    assert not value or value not in str(caught.value)
    assert "secretsecret" not in str(caught.value)


# Each pair: what was typed, and what PostgreSQL's clients hash after SASLprep (RFC 4013).
@pytest.mark.parametrize(
    ("typed", "hashed"),
    [
        ("I\u00adX", "IX"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u00aa", "a"),
        ("p\u00e4ss", "p\u00e4ss"),
        ("pa\u0308ss", "p\u00e4ss"),
        ("bell\u0007\u00e4", "bell\u0007\u00e4"),
        ("\u06271", "\u06271"),
    ],
)
def test_passwords_beyond_ascii_are_hashed_as_clients_do(typed: str, hashed: str) -> None:
    verifier = parse_secret(f"plain:{typed}").verifier(SALT)
    assert verifier is not None
    assert scram_succeeds(hashed.encode(), verifier)


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_two_passwords_match_only_if_they_are_the_same(one: str, other: str) -> None:
    first, second = one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    for form in (f"plain:{one}",) if one.isprintable() and first.decode("utf-8", "ignore") == one else ():
        assert parse_secret(form).matches(first)
        assert parse_secret(form).matches(second) == (first == second)
