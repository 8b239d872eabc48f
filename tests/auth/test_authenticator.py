"""Logins: right, wrong, replayed and unknown ones look alike but for their outcome; failures are counted and logged."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections import Counter

import pytest

from tests.auth.clients import caching_answer, native_answer, scram_succeeds
from tsdb.auth import (
    Authenticator,
    AuthError,
    BlankCredentials,
    PasswordMismatch,
    TooManyFailedLogins,
    open_authenticator,
)
from tsdb.auth._throttle import (
    CLIENT_FAILURES_MAX,
    ENTRIES_MAX,
    PAIR_FAILURES_MAX,
    PAIR_REFILL_SECONDS,
    LoginThrottle,
)
from tsdb.clock import ManualClock
from tsdb.errors import Status

SALT = "00ff" * 8
HASH = hashlib.pbkdf2_hmac("sha256", b"p", bytes.fromhex(SALT), 1000).hex()
NATIVE = hashlib.sha1(hashlib.sha1(b"n").digest()).hexdigest()
PLAIN = "static_user_provider:cmd:u=p,r:ro=q"
MIXED = f"static_user_provider:cmd:u=p,h=pbkdf2_sha256:1000:{SALT}:{HASH},n=mysql_native_password:{NATIVE}"
CHALLENGE = bytes(range(1, 21))


def _failure(work: object, *args: object, **options: object) -> AuthError:
    assert callable(work)
    with pytest.raises(AuthError) as caught:
        work(*args, **options)
    return caught.value


def test_an_unknown_user_is_refused_in_the_words_for_a_wrong_password() -> None:
    found = open_authenticator(PLAIN)
    wrong, unknown = _failure(found.check_password, "u", "x"), _failure(found.check_password, "z", "x")
    assert type(wrong) is type(unknown) is PasswordMismatch
    assert str(wrong) == "invalid user name or password (user: u)"
    assert str(unknown) == "invalid user name or password (user: z)"
    assert wrong.status is unknown.status is Status.USER_PASSWORD_MISMATCH


@pytest.mark.parametrize(("user", "password"), [("", "p"), ("u", ""), ("", ""), ("u", b"")])
def test_blank_credentials_are_refused(user: str, password: str | bytes) -> None:
    assert isinstance(_failure(open_authenticator(PLAIN).check_password, user, password), BlankCredentials)


def test_a_password_comes_as_text_or_as_bytes_and_never_too_long() -> None:
    found = open_authenticator(MIXED)
    assert found.check_password("u", "p") == found.check_password("u", b"p")
    _failure(found.check_password, "h", "p" * 100_000)


def test_a_right_password_is_recalled_and_a_wrong_one_is_not() -> None:
    found = open_authenticator(MIXED)
    assert found.recall_password("h", "p") is None
    assert found.check_password("h", "p").name == "h"
    assert found.recall_password("h", "p") == found.find("h")
    assert found.recall_password("h", "q") is None
    assert found.recall_password("z", "p") is None


def test_mysql_native_takes_the_answer_to_its_own_challenge_alone() -> None:
    found = open_authenticator(MIXED)
    answer = native_answer(b"p", CHALLENGE)
    assert found.check_mysql_native("u", CHALLENGE, answer).name == "u"
    assert found.check_mysql_native("n", CHALLENGE, native_answer(b"n", CHALLENGE)).name == "n"
    for user, challenge, response in (
        ("u", os.urandom(20), answer),  # replayed
        ("u", CHALLENGE, native_answer(b"q", CHALLENGE)),
        ("u", CHALLENGE, b""),
        ("u", CHALLENGE, answer[:19]),
        ("u", CHALLENGE, answer + b"x"),
        ("u", CHALLENGE, bytes(20)),
        ("z", CHALLENGE, answer),
        ("h", CHALLENGE, answer),  # its secret cannot serve this login
    ):
        assert isinstance(_failure(found.check_mysql_native, user, challenge, response), PasswordMismatch)


def test_caching_sha2_takes_the_answer_to_its_own_challenge_alone() -> None:
    found = open_authenticator(PLAIN)
    answer = caching_answer(b"p", CHALLENGE)
    identity = found.check_caching_sha2("u", CHALLENGE, answer)
    assert identity is not None
    assert identity.name == "u"
    for user, challenge, response in (
        ("u", os.urandom(20), answer),
        ("u", CHALLENGE, caching_answer(b"q", CHALLENGE)),
        ("u", CHALLENGE, b""),
        ("u", CHALLENGE, answer[:31]),
        ("z", CHALLENGE, answer),
    ):
        assert isinstance(_failure(found.check_caching_sha2, user, challenge, response), PasswordMismatch)


def test_where_one_secret_needs_the_password_everybody_else_is_asked_for_it_too() -> None:
    found = open_authenticator(MIXED)
    assert found.check_caching_sha2("u", CHALLENGE, caching_answer(b"p", CHALLENGE)) is not None
    for user in ("u", "h", "n", "z"):
        assert found.check_caching_sha2(user, CHALLENGE, caching_answer(b"x", CHALLENGE)) is None


def test_scram_succeeds_with_the_password_and_never_for_an_unknown_user() -> None:
    found = open_authenticator(PLAIN)
    assert found.offers_scram
    assert scram_succeeds(b"p", found.scram_verifier("u"))
    assert not scram_succeeds(b"x", found.scram_verifier("u"))
    assert found.confirm_scram("u", succeeded=True).name == "u"
    for password in (b"", b"p", b"z"):
        assert not scram_succeeds(password, found.scram_verifier("z"))
    _failure(found.confirm_scram, "z", succeeded=True)
    _failure(found.confirm_scram, "u", succeeded=False)


def test_an_unknown_user_shows_the_same_salt_each_time_and_after_a_restart() -> None:
    one, other = open_authenticator(PLAIN), open_authenticator(PLAIN)
    unknown, known = one.scram_verifier("z"), one.scram_verifier("u")
    assert unknown == one.scram_verifier("z") == other.scram_verifier("z")
    assert known == other.scram_verifier("u")
    assert unknown.salt != known.salt
    assert (len(unknown.salt), unknown.iterations) == (len(known.salt), known.iterations)


def test_scram_is_offered_only_if_every_secret_serves_it() -> None:
    assert not open_authenticator(MIXED).offers_scram
    _failure(open_authenticator(MIXED).confirm_scram, "h", succeeded=True)


def test_too_many_failures_are_refused_unseen_until_time_has_passed() -> None:
    clock = ManualClock()
    found = open_authenticator(PLAIN, clock=clock)
    for _ in range(PAIR_FAILURES_MAX):
        assert isinstance(_failure(found.check_password, "u", "x", client="1.1.1.1"), PasswordMismatch)
    refused = _failure(found.check_password, "u", "p", client="1.1.1.1")
    assert isinstance(refused, TooManyFailedLogins)
    assert refused.status is Status.RATE_LIMITED
    assert 1 <= refused.retry_after_seconds <= PAIR_REFILL_SECONDS + 1
    for check in (
        lambda: found.recall_password("u", "p", client="1.1.1.1"),
        lambda: found.check_mysql_native("u", CHALLENGE, native_answer(b"p", CHALLENGE), client="1.1.1.1"),
        lambda: found.check_caching_sha2("u", CHALLENGE, caching_answer(b"p", CHALLENGE), client="1.1.1.1"),
        lambda: found.confirm_scram("u", succeeded=True, client="1.1.1.1"),
    ):
        assert isinstance(_failure(check), TooManyFailedLogins)
    assert found.check_password("u", "p", client="2.2.2.2").name == "u", "others are not affected"
    assert found.check_password("r", "q", client="1.1.1.1").name == "r", "nor other users of the address"
    clock.advance(seconds=PAIR_REFILL_SECONDS + 0.1)
    assert found.check_password("u", "p", client="1.1.1.1").name == "u"
    for _ in range(PAIR_FAILURES_MAX):
        assert isinstance(_failure(found.check_password, "u", "x", client="1.1.1.1"), PasswordMismatch)


def test_an_address_that_tries_many_users_is_refused_as_a_whole() -> None:
    clock = ManualClock()
    found = open_authenticator(PLAIN, clock=clock)
    for number in range(CLIENT_FAILURES_MAX):
        assert isinstance(_failure(found.check_password, f"u{number}", "x", client="1.1.1.1"), PasswordMismatch)
    assert isinstance(_failure(found.check_password, "u", "p", client="1.1.1.1"), TooManyFailedLogins)
    clock.advance(seconds=3600)
    assert found.check_password("u", "p", client="1.1.1.1").name == "u"


def test_the_table_of_failures_is_bounded_and_names_are_cut() -> None:
    throttle = LoginThrottle(ManualClock())
    for number in range(ENTRIES_MAX + 500):
        throttle.note_failure(str(number), "x" * 100_000)
    assert len(throttle) == ENTRIES_MAX
    throttle.note_success(str(ENTRIES_MAX), "x" * 100_000)
    assert len(throttle) == ENTRIES_MAX - 1


def test_a_failed_login_is_logged_with_user_and_address_and_nothing_that_was_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = open_authenticator(MIXED)
    with caplog.at_level(logging.DEBUG, "tsdb.auth"):
        for user in ("u", "z", "z" * 1000):
            _failure(found.check_password, user, "tried-secret", client="9.9.9.9")
    text = "".join(str(record.__dict__) for record in caplog.records)
    assert "9.9.9.9" in text
    assert "unknown user" in text
    assert "wrong password" in text
    assert "tried-secret" not in text
    assert HASH not in text
    assert "z" * 200 not in text


def test_an_unknown_user_takes_as_long_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: the rounds of the key derivation are what takes long."""
    iterations = 100_000
    digest = hashlib.pbkdf2_hmac("sha256", b"p", bytes.fromhex(SALT), iterations).hex()
    found = open_authenticator(f"static_user_provider:cmd:u=p,h=pbkdf2_sha256:{iterations}:{SALT}:{digest}")
    derive, rounds = hashlib.pbkdf2_hmac, Counter[str]()

    def counted(name: str, password: bytes, salt: bytes, count: int, *more: int) -> bytes:
        rounds[current] += count
        return derive(name, password, salt, count, *more)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    for current in "huz":
        _failure(found.check_password, current, "wrong", client=current)
    assert rounds == {"h": iterations, "u": iterations, "z": iterations}


def test_many_threads_may_log_in_at_once() -> None:
    found: Authenticator = open_authenticator(MIXED)
    outcomes: list[str] = []

    def work(number: int) -> None:
        for step in range(20):
            try:
                outcomes.append(found.check_password("h", "p" if step % 2 else "x", client=f"{number}.{step}").name)
            except PasswordMismatch:
                outcomes.append("-")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["-"] * 40 + ["h"] * 40
