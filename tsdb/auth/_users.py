"""The users as they are at one moment, and where they come from.

A `UserTable` never changes; who asks twice during one login asks the same table. A source gives the table of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tsdb.auth._identity import Access, Identity
from tsdb.auth._lines import UserLine
from tsdb.auth._scram import ITERATIONS
from tsdb.auth._secrets import Secret


@dataclass(frozen=True, slots=True, eq=False)
class User:
    """One user: who it is, and how that is proved."""

    identity: Identity
    secret: Secret


@dataclass(frozen=True, slots=True, eq=False)
class UserTable:
    """All users of one moment, and what they have in common."""

    users: Mapping[str, User]
    iterations: int = field(init=False)
    """The work of the most costly check: all others are made as costly."""
    offers_scram: bool = field(init=False)
    """Whether every secret serves SCRAM."""
    serves_caching: bool = field(init=False)
    """Whether every secret serves caching_sha2_password without the password itself."""
    scram_iterations: int = field(init=False)
    """What an unknown user pretends to have."""

    def __post_init__(self) -> None:
        secrets = [user.secret for user in self.users.values()]
        own = [each.iterations for each in secrets if each.serves_scram and each.iterations]
        object.__setattr__(self, "iterations", max((each.iterations for each in secrets), default=0))
        object.__setattr__(self, "offers_scram", all(each.serves_scram for each in secrets))
        object.__setattr__(self, "serves_caching", all(each.caching_hash is not None for each in secrets))
        object.__setattr__(self, "scram_iterations", max(set(own), key=own.count) if own else ITERATIONS)

    def find(self, name: str) -> User | None:
        return self.users.get(name)


class UserSource(Protocol):
    """Where users come from."""

    def table(self) -> UserTable:
        """The users of now."""


def table_of(lines: Iterable[UserLine]) -> UserTable:
    """Make the table of a user list. Users who may both read and write are its administrators."""
    return UserTable(
        {
            line.name: User(
                Identity(
                    line.name,
                    can_read=Access.READ in line.access,
                    can_write=Access.WRITE in line.access,
                    is_admin=line.access is Access.ALL,
                ),
                line.secret,
            )
            for line in lines
        }
    )


@dataclass(frozen=True, slots=True)
class FixedUsers:
    """Users that were given at the start."""

    users: UserTable

    def table(self) -> UserTable:
        return self.users
