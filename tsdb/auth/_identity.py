"""Who asks, and what they may do.

There are two rights, to read and to write, each everywhere or in single databases; and administrators, who may besides
make users and stop the statements of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag

from tsdb.auth._errors import AccessDenied, PermissionDenied

ANYWHERE = "*"
"""The scope of a right that holds in every database."""


class Access(Flag):
    """What may be done."""

    NONE = 0
    READ = 1
    WRITE = 2
    ALL = 3

    @classmethod
    def of(cls, *, can_read: bool, can_write: bool) -> Access:
        return (cls.READ if can_read else cls.NONE) | (cls.WRITE if can_write else cls.NONE)

    @property
    def words(self) -> list[str]:
        return [access.name.lower() for access in (Access.READ, Access.WRITE) if access in self and access.name]


@dataclass(frozen=True, slots=True)
class Grants:
    """Rights by scope: `ANYWHERE` or the name of a database."""

    scopes: Mapping[str, Access] = field(default_factory=dict)

    def of(self, database: str) -> Access:
        return self.scopes.get(ANYWHERE, Access.NONE) | self.scopes.get(database, Access.NONE)

    @property
    def anywhere(self) -> Access:
        return self.scopes.get(ANYWHERE, Access.NONE)

    @property
    def together(self) -> Access:
        """What is allowed at all, somewhere."""
        whole = Access.NONE
        for access in self.scopes.values():
            whole |= access
        return whole


@dataclass(frozen=True, slots=True)
class Identity:
    """A user who has logged in."""

    name: str
    can_read: bool = True
    """May read something, somewhere."""
    can_write: bool = True
    """May write something, somewhere."""
    is_admin: bool = False
    grants: Grants | None = None
    """Rights by database; None: they are the same everywhere."""

    def access(self, database: str) -> Access:
        if self.grants is None:
            return Access.of(can_read=self.can_read, can_write=self.can_write)
        return self.grants.of(database)

    @property
    def anywhere(self) -> Access:
        """The rights that hold in every database, those to come included."""
        if self.grants is None:
            return Access.of(can_read=self.can_read, can_write=self.can_write)
        return self.grants.anywhere

    def may_read(self, database: str) -> bool:
        return Access.READ in self.access(database)

    def may_see(self, database: str) -> bool:
        """Whether the user may know that there is such a database."""
        return self.access(database) is not Access.NONE

    @property
    def sees_all(self) -> bool:
        """Whether nothing has to be hidden from the user."""
        return Access.READ in self.anywhere

    def check_read(self, database: str) -> None:
        self._check(Access.READ, database, has_any=self.can_read)

    def check_write(self, database: str) -> None:
        self._check(Access.WRITE, database, has_any=self.can_write)

    def check_admin(self) -> None:
        if not self.is_admin:
            raise PermissionDenied

    def _check(self, wanted: Access, database: str, *, has_any: bool) -> None:
        if not has_any:
            raise PermissionDenied
        if wanted not in self.access(database):
            raise AccessDenied(self.name, database)


SYSTEM = Identity("tsdb", is_admin=True)
"""The server itself, and every user where no login is required."""
