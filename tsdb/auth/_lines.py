"""The grammar of a user list: `user[:mode]=secret`, one per line of a file, or separated by commas.

Errors name an item by its number and, if it has one, the user's name, never by its secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsdb.auth._identity import Access
from tsdb.auth._secrets import Secret, parse_secret
from tsdb.errors import InvalidArguments

NAME_CHARS_MAX = 128

MODES = {
    "rw": Access.ALL,
    "readwrite": Access.ALL,
    "read_write": Access.ALL,
    "ro": Access.READ,
    "readonly": Access.READ,
    "read_only": Access.READ,
    "wo": Access.WRITE,
    "writeonly": Access.WRITE,
    "write_only": Access.WRITE,
}


@dataclass(frozen=True, slots=True)
class UserLine:
    """One user of a list."""

    name: str
    access: Access
    secret: Secret


@dataclass(frozen=True, slots=True)
class BadLine:
    """An item that cannot be read."""

    number: int
    reason: str


def parse_user(item: str) -> UserLine:
    """Read `user[:mode]=secret`; InvalidArguments says what is wrong with it."""
    said, equals, secret = item.partition("=")
    if not equals or "=" in secret:
        raise InvalidArguments("expected exactly one = in user[:mode]=secret")
    name, colon, mode = said.strip().partition(":")
    name, secret = name.strip(), secret.strip()
    if not name or len(name) > NAME_CHARS_MAX:
        raise InvalidArguments(f"the name of the user must have between 1 and {NAME_CHARS_MAX} characters")
    if not secret:
        raise InvalidArguments(f"the password of {name} is empty")
    access = MODES.get(mode.strip().lower()) if colon else Access.ALL
    if access is None:
        raise InvalidArguments(f"the mode of {name} is not one of rw, ro and wo")
    try:
        return UserLine(name, access, parse_secret(secret))
    except InvalidArguments as error:
        raise InvalidArguments(f"the secret of {name}: {error}") from None


def parse_items(text: str) -> list[UserLine]:
    """Read a list with commas; any item that is wrong makes it wrong."""
    users: dict[str, UserLine] = {}
    for number, item in enumerate(text.split(","), 1):
        try:
            user = parse_user(item)
        except InvalidArguments as error:
            raise InvalidArguments(f"user {number}: {error}") from None
        if user.name in users:
            raise InvalidArguments(f"user {number}: {user.name} is listed twice")
        users[user.name] = user
    return list(users.values())


def parse_file(text: str) -> Iterator[UserLine | BadLine]:
    """Read the lines of a file. Empty lines and those that begin with # say nothing."""
    for number, line in enumerate(text.splitlines(), 1):
        item = line.strip()
        if not item or item.startswith("#"):
            continue
        try:
            yield parse_user(item)
        except InvalidArguments as error:
            yield BadLine(number, str(error))
