"""What can go wrong with logins and rights.

AuthError                 the login is refused: send other credentials
├── PasswordMismatch      user and password do not belong together, or there is no such user; it does not say which
├── BlankCredentials      the name or the password is empty
├── AuthHeaderMissing     the request says nothing about its user
├── InvalidAuthHeader     what it says cannot be read
├── UnsupportedPassword   credentials of a kind that no user has here
└── TooManyFailedLogins   too many failures from there: wait
PermissionDenied          the user may never do such a thing: only an administrator can help
└── AccessDenied          … in this database
"""

from __future__ import annotations

from tsdb.errors import Status, TsdbError


class AuthError(TsdbError):
    """The login is refused."""

    status = Status.USER_PASSWORD_MISMATCH


class PasswordMismatch(AuthError):
    """User and password do not belong together. There may be no such user: the text is the same on purpose."""

    def __init__(self, user: str) -> None:
        super().__init__("invalid user name or password", user=user)


class BlankCredentials(AuthError):
    """The name of the user, or the password, is empty."""

    status = Status.INVALID_ARGUMENTS

    def __init__(self) -> None:
        super().__init__("the user name or the password is empty")


class AuthHeaderMissing(AuthError):
    """The request carries no credentials."""

    status = Status.AUTH_HEADER_NOT_FOUND


class InvalidAuthHeader(AuthError):
    """The credentials of the request cannot be read."""

    status = Status.INVALID_AUTH_HEADER


class UnsupportedPassword(AuthError):
    """The credentials are of a kind that no user has here."""

    status = Status.UNSUPPORTED_PASSWORD_TYPE


class TooManyFailedLogins(AuthError):
    """Too many logins failed: further ones are refused unseen for a while."""

    status = Status.RATE_LIMITED

    def __init__(self, *, retry_after_seconds: int) -> None:
        super().__init__("too many failed logins", hint=f"try again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class PermissionDenied(TsdbError):
    """The user may not do this."""

    status = Status.PERMISSION_DENIED

    def __init__(self, message: str = "User is not authorized to perform this action") -> None:
        super().__init__(message)


class AccessDenied(PermissionDenied):
    """The user may not do this in this database."""

    status = Status.ACCESS_DENIED

    def __init__(self, user: str, database: str) -> None:
        super().__init__(f"Access denied for user {user} to database {database}")
