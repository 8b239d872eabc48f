"""Decides about logins, for every protocol.

- A login does not reveal whether a user exists. An unknown one is checked against a secret that nothing matches, all
  checks do the work of the most costly secret there is, and the error is the same.
- Failures are counted by address and user; see `_throttle`. They are logged, with nothing that was sent but the name.
- A password that was right is remembered as a keyed digest, so that a client that sends it with every request does not
  pay for the work each time. A changed user is another one, and is checked anew.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict

from tsdb.auth._errors import AuthError, BlankCredentials, PasswordMismatch, PermissionDenied, TooManyFailedLogins
from tsdb.auth._identity import Identity
from tsdb.auth._scram import SALT_BYTES, ScramVerifier, make_verifier
from tsdb.auth._secrets import PlainSecret, spend
from tsdb.auth._store import UserStore
from tsdb.auth._throttle import LoginThrottle
from tsdb.auth._users import User, UserSource, UserTable
from tsdb.clock import Clock
from tsdb.telemetry import counter, get_logger

REMEMBERED_MAX = 10_000
"""How many right passwords, and how many verifiers of SCRAM, are remembered."""
PASSWORD_BYTES_MAX = 64 << 10
"""A longer password is a wrong one."""
_LOGGED_CHARS_MAX = 128

_log = get_logger("tsdb.auth")
_LOGINS = counter(
    "tsdb_auth_logins_total",
    "Credential checks; outcome is ok, failed, or throttled after too many failures.",
    labels=("method", "outcome"),
)


class Authenticator:
    """Checks credentials. Safe to use from many threads. Without a source of users every login is accepted."""

    def __init__(
        self, source: UserSource | None = None, *, clock: Clock | None = None, key: bytes | None = None
    ) -> None:
        self._source = source
        self._throttle = LoginThrottle(clock)
        self._digest_key = secrets.token_bytes(32)
        self._decoy_key = key or secrets.token_bytes(32)
        """Makes the salts that unknown users seem to have: better the same after a restart."""
        self._decoy = PlainSecret(secrets.token_bytes(32))
        self._lock = threading.Lock()
        self._right: OrderedDict[str, tuple[User, bytes]] = OrderedDict()
        self._verifiers: OrderedDict[str, tuple[User | None, ScramVerifier]] = OrderedDict()

    @property
    def is_enabled(self) -> bool:
        return self._source is not None

    @property
    def has_stored_users(self) -> bool:
        """Whether users come from the metadata, so that SQL can change them."""
        return False

    def attach(self, store: UserStore) -> None:
        """Learn where the users are that SQL made; called once the metadata is open."""

    @property
    def offers_scram(self) -> bool:
        return self._table().offers_scram

    def recall_password(self, user: str, password: str | bytes, *, client: str = "") -> Identity | None:
        """Return who this is if the password was right before; None if it has to be checked. Never blocks for long."""
        if self._source is None:
            return _unchecked(user)
        self._check_throttle(user, client, "password")
        found = self._table().find(user)
        if found is None or not self._is_remembered(found, _encoded(password)):
            return None
        self._note_success(user, client, "password")
        return found.identity

    def check_password(self, user: str, password: str | bytes, *, client: str = "") -> Identity:
        """Check a password that came as it is."""
        if self._source is None:
            return _unchecked(user)
        if not user or not password:
            raise BlankCredentials
        self._check_throttle(user, client, "password")
        raw, table = _encoded(password), self._table()
        found = table.find(user)
        if found is not None and self._is_remembered(found, raw):
            self._note_success(user, client, "password")
            return found.identity
        if not self._matches(found, raw, table) or found is None:
            raise self._failure(found, user, client, "password")
        self._remember(found, raw)
        self._note_success(user, client, "password")
        return found.identity

    def check_mysql_native(self, user: str, challenge: bytes, response: bytes, *, client: str = "") -> Identity:
        """Check the answer of mysql_native_password to a challenge of 20 bytes."""
        if self._source is None:
            return _unchecked(user)
        self._check_throttle(user, client, "mysql_native")
        found = self._table().find(user)
        known = None if found is None else found.secret.native_hash
        expected = known or self._decoy.native_hash or b""
        mask = hashlib.sha1(challenge + expected).digest()
        guess = _xor(response, mask) if len(response) == len(mask) else mask
        is_right = hmac.compare_digest(hashlib.sha1(guess).digest(), expected)
        if not is_right or found is None or known is None:
            raise self._failure(found, user, client, "mysql_native", lacks_hash=known is None)
        self._note_success(user, client, "mysql_native")
        return found.identity

    def check_caching_sha2(self, user: str, challenge: bytes, response: bytes, *, client: str = "") -> Identity | None:
        """Check the short answer of caching_sha2_password; None if the password itself is needed to tell.

        Where some user's secret needs the password, every user whose short answer is wrong is asked for it, so that
        the course of a login reveals nothing.
        """
        if self._source is None:
            return _unchecked(user)
        self._check_throttle(user, client, "caching_sha2")
        table = self._table()
        found = table.find(user)
        known = None if found is None else found.secret.caching_hash
        expected = known or self._decoy.caching_hash or b""
        mask = hashlib.sha256(expected + challenge).digest()
        guess = _xor(response, mask) if len(response) == len(mask) else mask
        is_right = hmac.compare_digest(hashlib.sha256(guess).digest(), expected)
        if is_right and found is not None and known is not None:
            self._note_success(user, client, "caching_sha2")
            return found.identity
        if not table.serves_caching and (found is None or known is None):
            return None
        error = self._failure(found, user, client, "caching_sha2")
        if table.serves_caching:
            raise error
        return None

    def scram_verifier(self, user: str) -> ScramVerifier:
        """Return what SCRAM-SHA-256 checks a login with; for an unknown user one that nothing matches."""
        table = self._table()
        found = table.find(user)
        with self._lock:
            kept = self._verifiers.get(user)
            if kept is not None and kept[0] is found:
                self._verifiers.move_to_end(user)
                return kept[1]
        verifier = self._make_verifier(found, user, table)
        with self._lock:
            self._verifiers[user] = (found, verifier)
            while len(self._verifiers) > REMEMBERED_MAX:
                self._verifiers.popitem(last=False)
        return verifier

    def confirm_scram(self, user: str, *, succeeded: bool, client: str = "") -> Identity:
        """Count the end of a login by SCRAM; AuthError if it did not succeed, or must not."""
        if self._source is None:
            return _unchecked(user)
        self._check_throttle(user, client, "scram")
        found = self._table().find(user)
        if not succeeded or found is None or not found.secret.serves_scram:
            raise self._failure(found, user, client, "scram")
        self._note_success(user, client, "scram")
        return found.identity

    def refresh(self, identity: Identity) -> Identity:
        """Return the current rights of a user who logged in earlier; PermissionDenied if the user is gone."""
        if self._source is None:
            return identity
        found = self._table().find(identity.name)
        if found is None:
            raise PermissionDenied("the user no longer exists")
        return found.identity

    def find(self, name: str) -> Identity | None:
        """Return what a user may do, None if there is none of that name."""
        found = self._table().find(name)
        return None if found is None else found.identity

    def given(self) -> list[Identity]:
        """The users of the configuration, whom SQL cannot change."""
        return [user.identity for user in self._table().users.values()]

    def is_given(self, name: str) -> bool:
        return any(each.name == name for each in self.given())

    def _table(self) -> UserTable:
        return _NOBODY if self._source is None else self._source.table()

    def _matches(self, user: User | None, password: bytes, table: UserTable) -> bool:
        secret = self._decoy if user is None else user.secret
        is_right = len(password) <= PASSWORD_BYTES_MAX and secret.matches(password)
        spend(password[:PASSWORD_BYTES_MAX], table.iterations - secret.iterations)
        return is_right and user is not None

    def _make_verifier(self, user: User | None, name: str, table: UserTable) -> ScramVerifier:
        # An unknown user goes exactly the way of one whose password is kept as it is.
        seed = hmac.digest(self._decoy_key, name.encode("utf-8", "surrogatepass"), "sha512")
        salt, password = seed[:SALT_BYTES], seed[32:]
        verifier = None if user is None else user.secret.verifier(salt)
        return verifier or make_verifier(password, salt, table.scram_iterations)

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._digest_key, password, "sha256")

    def _is_remembered(self, user: User, password: bytes) -> bool:
        digest, kept = self._digest(password), self._right.get(user.identity.name)
        return kept is not None and kept[0] is user and hmac.compare_digest(kept[1], digest)

    def _remember(self, user: User, password: bytes) -> None:
        with self._lock:
            self._right[user.identity.name] = (user, self._digest(password))
            while len(self._right) > REMEMBERED_MAX:
                self._right.popitem(last=False)

    def _check_throttle(self, user: str, client: str, method: str) -> None:
        try:
            self._throttle.check(client, user)
        except TooManyFailedLogins:
            _LOGINS.labels(method, "throttled").inc()
            _log.debug(
                "a login was refused without a check: too many logins have failed",
                user=user[:_LOGGED_CHARS_MAX],
                client=client,
            )
            raise

    def _note_success(self, user: str, client: str, method: str) -> None:
        _LOGINS.labels(method, "ok").inc()
        self._throttle.note_success(client, user)

    def _failure(
        self, found: User | None, user: str, client: str, method: str, *, lacks_hash: bool = False
    ) -> AuthError:
        """Count a failed login; the log alone learns why it failed."""
        _LOGINS.labels(method, "failed").inc()
        self._throttle.note_failure(client, user)
        reason = "wrong password"
        if found is None:
            reason = "unknown user"
        elif lacks_hash:
            reason = "the form of the secret does not serve this kind of login"
        name = user[:_LOGGED_CHARS_MAX]
        _log.warning("a login failed", user=name, client=client, method=method, reason=reason)
        return PasswordMismatch(name)


_NOBODY = UserTable({})


def _unchecked(user: str) -> Identity:
    return Identity(user, is_admin=True)


def _encoded(password: str | bytes) -> bytes:
    return password.encode("utf-8", "surrogatepass") if isinstance(password, str) else password


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
