"""Who may come in, and what they may do: users, their secrets, and the checks of every protocol.

    user_provider ─▶ open_authenticator ─▶ Authenticator ─▶ check_password, check_mysql_native, … ─▶ Identity
                                                              └─ AuthError: the same, and as slow, for an unknown user

A server asks the `Authenticator` when a client logs in and puts the `Identity` into the session; the database asks the
identity before each statement. `UserStore` keeps the users that SQL made, in the metadata.

A server of a protocol needs to know, beside the checks themselves:
- `is_enabled`: without it any user name is accepted without a password, and every check succeeds;
- `offers_scram`: whether every user's secret can serve SCRAM-SHA-256. If not, PostgreSQL asks for the password itself;
- every check may take milliseconds, so it belongs on a thread; `recall_password` never blocks, and answers only for a
  password that was right before.
"""

from tsdb.auth._authenticator import Authenticator
from tsdb.auth._errors import (
    AccessDenied,
    AuthError,
    AuthHeaderMissing,
    BlankCredentials,
    InvalidAuthHeader,
    PasswordMismatch,
    PermissionDenied,
    TooManyFailedLogins,
    UnsupportedPassword,
)
from tsdb.auth._identity import ANYWHERE, SYSTEM, Access, Grants, Identity
from tsdb.auth._provider import open_authenticator
from tsdb.auth._scram import ScramVerifier
from tsdb.auth._secrets import Secret, parse_secret, stored_secret
from tsdb.auth._store import StoredUser, UserExists, UserNotFound, UserStore

__all__ = [
    "ANYWHERE",
    "SYSTEM",
    "Access",
    "AccessDenied",
    "AuthError",
    "AuthHeaderMissing",
    "Authenticator",
    "BlankCredentials",
    "Grants",
    "Identity",
    "InvalidAuthHeader",
    "PasswordMismatch",
    "PermissionDenied",
    "ScramVerifier",
    "Secret",
    "StoredUser",
    "TooManyFailedLogins",
    "UnsupportedPassword",
    "UserExists",
    "UserNotFound",
    "UserStore",
    "open_authenticator",
    "parse_secret",
    "stored_secret",
]
