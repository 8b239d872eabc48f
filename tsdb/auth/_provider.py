"""`user_provider`: which users there are, in the words of the configuration.

    static_user_provider:cmd:u1=p1,u2:ro=p2       the users are in the value itself
    static_user_provider:file:<path>              … in a file, read at the start
    watch_file_user_provider:<path>               … in a file, read again when it changes
    catalog_user_provider                         … in the metadata, made by CREATE USER
    catalog_user_provider:cmd:… | :file:…         … and beside them these, so that there is a first administrator

A value that cannot be used ends the start with a message that does not repeat a secret.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tsdb.auth._authenticator import Authenticator
from tsdb.auth._files import WatchedFile, read_users
from tsdb.auth._identity import Identity
from tsdb.auth._lines import parse_items
from tsdb.auth._store import UserStore
from tsdb.auth._users import FixedUsers, UserTable, table_of
from tsdb.clock import Clock
from tsdb.errors import InvalidArguments, StartError

STATIC = "static_user_provider"
WATCHED = "watch_file_user_provider"
CATALOG = "catalog_user_provider"
_FORMS = f"{STATIC}:cmd:<user>=<password>,…, {STATIC}:file:<path>, {WATCHED}:<path> or {CATALOG}"


def open_authenticator(user_provider: str | None, *, clock: Clock | None = None) -> Authenticator:
    """Return the authenticator; without a provider it accepts every login. StartError for an unusable provider."""
    if not user_provider:
        return Authenticator(clock=clock)
    try:
        return _open(user_provider, clock)
    except InvalidArguments as error:
        raise StartError(f"user_provider: {error}") from error


def _open(text: str, clock: Clock | None) -> Authenticator:
    name, _, rest = text.partition(":")
    if name == STATIC:
        return Authenticator(FixedUsers(_parse_users(rest, STATIC)), clock=clock, key=_key_of(text))
    if name == WATCHED:
        if not rest:
            raise InvalidArguments(f"expected {WATCHED}:<path>")
        return Authenticator(WatchedFile(Path(rest)), clock=clock, key=_key_of(text))
    if name == CATALOG:
        return CatalogAuthenticator(_parse_users(rest, CATALOG) if rest else UserTable({}), clock=clock)
    raise InvalidArguments("unknown user provider", hint=f"use {_FORMS}")


def _parse_users(rest: str, provider: str) -> UserTable:
    kind, colon, value = rest.partition(":")
    if not colon or not value or kind not in ("cmd", "file"):
        raise InvalidArguments(f"expected {provider}:cmd:<user>=<password>,… or {provider}:file:<path>")
    return table_of(parse_items(value)) if kind == "cmd" else read_users(Path(value))


def _key_of(text: str) -> bytes:
    return hashlib.sha256(b"decoy:" + text.encode("utf-8", "surrogatepass")).digest()


class _CatalogUsers:
    """The users of the metadata and those that were given at the start, who come first."""

    def __init__(self, given: UserTable) -> None:
        self._given = given
        self._store: UserStore | None = None
        self._merged: tuple[UserTable, UserTable] | None = None

    def attach(self, store: UserStore) -> None:
        self._store = store

    def table(self) -> UserTable:
        if self._store is None:
            return self._given
        stored, merged = self._store.table(), self._merged
        if merged is None or merged[0] is not stored:
            merged = (stored, UserTable({**stored.users, **self._given.users}))
            self._merged = merged
        return merged[1]

    @property
    def has_admin(self) -> bool:
        return any(user.identity.is_admin for user in self.table().users.values())


class CatalogAuthenticator(Authenticator):
    """Checks the logins of users that SQL made."""

    has_stored_users = True

    def __init__(self, given: UserTable, *, clock: Clock | None = None) -> None:
        self._given = given
        self._users = _CatalogUsers(given)
        super().__init__(self._users, clock=clock)

    def given(self) -> list[Identity]:
        return [user.identity for user in self._given.users.values()]

    def attach(self, store: UserStore) -> None:
        """Take the users of the metadata; StartError if none of them is an administrator."""
        self._users.attach(store)
        self._decoy_key = store.decoy_key()
        if not self._users.has_admin:
            raise StartError(
                "user_provider: there is no administrator yet",
                hint=f"start with {CATALOG}:cmd:<user>=<password> and create users with CREATE USER",
            )
