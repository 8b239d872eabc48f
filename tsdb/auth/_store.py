"""The users that SQL made, in the metadata.

One key for each, `__user/{name}`: a description in JSON with what is kept of the password and the rights. Reads come
from an immutable snapshot in memory; a change is one transaction that compares before it writes, then the next one.
Over a copy of the metadata of a cluster (`MirrorKv`), every snapshot comes from the copy: also those after changes that
were made elsewhere.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tsdb.auth._identity import ANYWHERE, Access, Grants, Identity
from tsdb.auth._lines import NAME_CHARS_MAX
from tsdb.auth._scram import ScramVerifier
from tsdb.auth._secrets import StoredSecret
from tsdb.auth._users import User, UserTable
from tsdb.errors import InvalidArguments, Status, TsdbError
from tsdb.kv import Absent, Compare, DeleteKey, Equals, KvConflict, KvStore, MirrorKv, PutKey
from tsdb.telemetry import get_logger

USERS = "__user/"
DECOY_KEY = "__auth/decoy_key"
USERS_MAX = 10_000
"""How many users there may be."""
SCOPES_MAX = 1_000
"""In how many single databases one user may have rights."""
_ATTEMPTS_MAX = 100

_log = get_logger("tsdb.auth")


class UserExists(InvalidArguments):
    """There is such a user already."""


class UserNotFound(TsdbError):
    """There is no such user."""

    status = Status.USER_NOT_FOUND

    def __init__(self, user: str) -> None:
        super().__init__(f"User not found, username: {user}")


class UsersCorrupted(TsdbError):
    """The description of a user cannot be read."""

    status = Status.UNEXPECTED


@dataclass(frozen=True, slots=True)
class StoredUser:
    """One user as SQL knows it."""

    name: str
    secret: StoredSecret
    is_admin: bool = False
    grants: Mapping[str, Access] = field(default_factory=dict)
    """By scope: `ANYWHERE` or a database."""

    @property
    def identity(self) -> Identity:
        grants = Grants(self.grants)
        return Identity(
            self.name,
            can_read=Access.READ in grants.together,
            can_write=Access.WRITE in grants.together,
            is_admin=self.is_admin,
            grants=grants,
        )


Change = Callable[[StoredUser], StoredUser]


class UserStore:
    """The users of the metadata. Safe to use from many threads."""

    def __init__(self, kv: KvStore, *, users_max: int = USERS_MAX, scopes_max: int = SCOPES_MAX) -> None:
        self._kv = kv
        self._users_max = users_max
        self._scopes_max = scopes_max
        self._lock = threading.Lock()
        self._users: dict[str, StoredUser] = {}
        self._is_following = isinstance(kv, MirrorKv)
        if not isinstance(kv, MirrorKv):
            self._users = {user.name: user for user in (_decode(key, value) for key, value in kv.scan(USERS))}
        self._table = _table_of(self._users)
        if isinstance(kv, MirrorKv):
            kv.subscribe([USERS], self._follow)

    def table(self) -> UserTable:
        """The users of now, for logins."""
        return self._table

    def users(self) -> list[StoredUser]:
        """All users, by name."""
        return sorted(self._users.values(), key=lambda user: user.name)

    def find(self, name: str) -> StoredUser | None:
        return self._users.get(name)

    def user(self, name: str) -> StoredUser:
        found = self._users.get(name)
        if found is None:
            raise UserNotFound(name)
        return found

    def decoy_key(self) -> bytes:
        """The secret from which unknown users get their salts: made once, the same after every start."""
        for _ in range(_ATTEMPTS_MAX):
            found = self._kv.get(DECOY_KEY)
            if found is not None:
                return found
            self._kv.transact([Absent(DECOY_KEY)], [PutKey(DECOY_KEY, secrets.token_hex(32).encode())])
        raise KvConflict("the authentication key cannot be created", hint="try again later")

    def create(self, name: str, secret: StoredSecret, *, is_admin: bool = False) -> None:
        """Make a user without rights; UserExists if there is one of that name."""
        _check_name(name)
        with self._lock:
            if name in self._users:
                raise UserExists(f"the user {name} exists already")
            if len(self._users) >= self._users_max:
                raise InvalidArguments(f"there are {self._users_max} users, which is the limit")
            self._put(None, StoredUser(name, secret, is_admin=is_admin))

    def change(self, name: str, change: Change) -> StoredUser:
        """Change a user; UserNotFound if there is none of that name."""
        with self._lock:
            was = self.user(name)
            changed = change(was)
            if len(changed.grants) > self._scopes_max:
                limit = f"{self._scopes_max} databases, which is the limit"
                raise InvalidArguments(f"the user {name} has rights in {limit}")
            if changed != was:
                self._put(was, changed)
            return changed

    def drop(self, name: str) -> None:
        with self._lock:
            was = self.user(name)
            self._transact([Equals(_key(name), _encode(was))], DeleteKey(_key(name)), name)
            self._publish({each: user for each, user in self._users.items() if each != name})

    def grant(self, name: str, scope: str, access: Access, *, makes_admin: bool = False) -> None:
        def change(user: StoredUser) -> StoredUser:
            grants = dict(user.grants)
            if access is not Access.NONE:
                grants[scope] = grants.get(scope, Access.NONE) | access
            return replace(user, grants=grants, is_admin=user.is_admin or makes_admin)

        self.change(name, change)

    def revoke(self, name: str, scope: str | None, access: Access, *, takes_admin: bool = False) -> None:
        """Take rights away in one scope, or in all with None."""

        def change(user: StoredUser) -> StoredUser:
            left = {each: held & ~access if scope in (None, each) else held for each, held in user.grants.items()}
            kept = {each: held for each, held in left.items() if held is not Access.NONE}
            return replace(user, grants=kept, is_admin=user.is_admin and not takes_admin)

        self.change(name, change)

    def forget_database(self, database: str) -> None:
        """Take away the rights in a database that was dropped, so that a new one of its name begins without them."""
        for user in self.users():
            if database in user.grants and database != ANYWHERE:
                self.revoke(user.name, database, Access.ALL)

    def _put(self, was: StoredUser | None, user: StoredUser) -> None:
        key = _key(user.name)
        compare: Compare = Absent(key) if was is None else Equals(key, _encode(was))
        self._transact([compare], PutKey(key, _encode(user)), user.name)
        self._publish({**self._users, user.name: user})

    def _transact(self, compares: list[Compare], operation: PutKey | DeleteKey, name: str) -> None:
        if not self._kv.transact(compares, [operation]):
            raise KvConflict("the user was changed concurrently", user=name, hint="try again")

    def _publish(self, users: dict[str, StoredUser]) -> None:
        # A copy shows a change before the transaction returns, and only its thread may make snapshots.
        if not self._is_following:
            self._show(users)

    def _show(self, users: dict[str, StoredUser]) -> None:
        self._users = users
        self._table = _table_of(users, self._table)

    def _follow(self, changed: Mapping[str, bytes | None]) -> None:
        """Take over what the copy of the metadata shows; called by its thread alone."""
        users = dict(self._users)
        for key, value in changed.items():
            users.pop(_name_of(key), None)
            if value is not None:
                try:
                    user = _decode(key, value)
                except UsersCorrupted as error:
                    _log.error("a user cannot log in", error=error)
                    continue
                users[user.name] = user
        self._show(users)


def _table_of(users: Mapping[str, StoredUser], before: UserTable | None = None) -> UserTable:
    """Make the table for logins. Who has not changed stays the same object, so that passwords stay remembered."""
    found = {}
    for name, user in users.items():
        old = None if before is None else before.find(name)
        identity = user.identity
        is_same = old is not None and old.secret == user.secret and old.identity == identity
        found[name] = old if is_same and old is not None else User(identity, user.secret)
    return UserTable(found)


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidArguments(f"the name of a user must have between 1 and {NAME_CHARS_MAX} printable characters")
    if ":" in name or "=" in name:
        raise InvalidArguments("the name of a user must not contain : or =", user=name)


def _key(name: str) -> str:
    return USERS + name.replace("%", "%25").replace("/", "%2F")


def _name_of(key: str) -> str:
    return key.removeprefix(USERS).replace("%2F", "/").replace("%25", "%")


def _encode(user: StoredUser) -> bytes:
    scram = user.secret.scram
    value = {
        "name": user.name,
        "is_admin": user.is_admin,
        "grants": {scope: access.words for scope, access in sorted(user.grants.items())},
        "scram": {
            "iterations": scram.iterations,
            "salt": scram.salt.hex(),
            "stored_key": scram.stored_key.hex(),
            "server_key": scram.server_key.hex(),
        },
        "mysql_native": user.secret.native.hex(),
        "caching_sha2": user.secret.caching.hex(),
    }
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise InvalidArguments(f"the user cannot be stored: {error}") from error


def _decode(key: str, value: bytes) -> StoredUser:
    try:
        return _from_json(orjson.loads(value))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsersCorrupted(f"the description of a user cannot be read: {error}", key=key) from error


def _from_json(value: dict[str, Any]) -> StoredUser:
    scram = value["scram"]
    verifier = ScramVerifier(
        bytes.fromhex(scram["salt"]),
        int(scram["iterations"]),
        bytes.fromhex(scram["stored_key"]),
        bytes.fromhex(scram["server_key"]),
    )
    secret = StoredSecret(verifier, bytes.fromhex(value["mysql_native"]), bytes.fromhex(value["caching_sha2"]))
    grants = {
        scope: Access.of(can_read="read" in words, can_write="write" in words)
        for scope, words in value["grants"].items()
    }
    return StoredUser(value["name"], secret, is_admin=bool(value["is_admin"]), grants=grants)
