"""Users in SQL: CREATE USER, ALTER USER, DROP USER, GRANT, REVOKE, SHOW GRANTS and SHOW USERS.

They are those of the metadata, who can log in when `user_provider` says so. Where users come from elsewhere, these
statements are refused: they would have no effect. Administrators make and change users; everybody may choose a new
password and see their own rights.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tsdb.auth import (
    ANYWHERE,
    SYSTEM,
    Access,
    Identity,
    PermissionDenied,
    StoredUser,
    UserExists,
    UserNotFound,
    stored_secret,
)
from tsdb.database._names import quoted
from tsdb.database._services import Services
from tsdb.database.sessions.access import authorize
from tsdb.database.showing.rows import text_table
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query import Affected, Session
from tsdb.sql import Parsed, statements
from tsdb.sql.statements import Dialect

PASSWORD_CHARS_MAX = 1024
_MASK = "'******'"
_NO_EFFECT = "nobody has to log in: users count from when user_provider is catalog_user_provider"


def create_user(statement: statements.CreateUser, services: Services, session: Session) -> Affected:
    _administrate(services, session)
    _check_password(statement.password)
    if services.authenticator.is_given(statement.name):
        raise UserExists(f"the user {statement.name} exists already, in user_provider")
    if services.users.find(statement.name) is not None and statement.if_not_exists:
        return Affected(0)
    services.users.create(statement.name, stored_secret(statement.password))
    return Affected(0)


def alter_user(statement: statements.AlterUser, services: Services, session: Session) -> Affected:
    identity = _check_stored(services, session)
    if identity.name != statement.name or identity is SYSTEM:
        identity.check_admin()
    _check_password(statement.password)
    if services.users.find(statement.name) is None and statement.if_exists:
        return Affected(0)
    secret = stored_secret(statement.password)
    services.users.change(statement.name, lambda user: replace(user, secret=secret))
    return Affected(0)


def drop_user(statement: statements.DropUser, services: Services, session: Session) -> Affected:
    """Drop users: all of them, or none when one is missing."""
    _administrate(services, session)
    found = [name for name in dict.fromkeys(statement.names) if services.users.find(name) is not None]
    if len(found) != len(set(statement.names)) and not statement.if_exists:
        raise UserNotFound(next(name for name in statement.names if name not in found))
    for name in found:
        services.users.drop(name)
    return Affected(0)


def grant(statement: statements.Grant, services: Services, session: Session) -> Affected:
    _administrate(services, session)
    scope = _scope(statement, services, session)
    if statement.with_option and not (scope == ANYWHERE and statement.privileges == {"read", "write"}):
        raise Unsupported("GRANT OPTION makes an administrator", hint="GRANT ALL ON *.* TO … WITH GRANT OPTION")
    _check_users(statement.users, services)
    for name in statement.users:
        services.users.grant(name, scope, _access(statement.privileges), makes_admin=statement.with_option)
    return Affected(0)


def revoke(statement: statements.Revoke, services: Services, session: Session) -> Affected:
    _administrate(services, session)
    scope = None if statement.is_whole else _scope(statement, services, session, must_exist=False)
    if statement.takes_option and not statement.is_everywhere:
        raise Unsupported("the GRANT OPTION holds everywhere", hint="REVOKE GRANT OPTION ON *.* FROM …")
    takes_admin = statement.takes_option or (scope == ANYWHERE and statement.privileges == {"read", "write"})
    _check_users(statement.users, services)
    for name in statement.users:
        services.users.revoke(name, scope, _access(statement.privileges), takes_admin=takes_admin)
    return Affected(0)


def show_grants(statement: statements.Show, services: Services, session: Session) -> pa.Table:
    """One statement for each right, as it would have to be given."""
    identity = authorize(services, session)
    name = identity.name if statement.name is None else statement.name.last
    if name != identity.name:
        identity.check_admin()
        stored = services.users.find(name)
        if stored is not None and not services.authenticator.is_given(name):
            return _grants_table(name, stored.is_admin, dict(stored.grants), session.dialect)
        found = services.authenticator.find(name)
        if found is None:
            raise UserNotFound(name)
        identity = found
    grants = {ANYWHERE: identity.anywhere} if identity.grants is None else dict(identity.grants.scopes)
    return _grants_table(name, identity.is_admin, grants, session.dialect)


def show_users(statement: statements.Show, services: Services, session: Session) -> pa.Table:
    """All users; those of the metadata even where they cannot log in."""
    authorize(services, session).check_admin()
    given = [("provider", each) for each in services.authenticator.given()]
    stored = [("catalog", each.identity) for each in services.users.users() if not _is_hidden(each, services)]
    rows = [
        (each.name, source, "yes" if each.is_admin else "no", _summary(each))
        for source, each in sorted([*given, *stored], key=lambda pair: pair[1].name)
    ]
    return text_table(("User", "Source", "Administrator", "Rights"), rows)


def discreet_text(parsed: Parsed) -> str:
    """The text of a statement for the process list, the record of slow ones and traces: without a password."""
    statement = parsed.statement
    if isinstance(statement, statements.CreateUser):
        return f"CREATE USER {statement.name} IDENTIFIED BY {_MASK}"
    if isinstance(statement, statements.AlterUser):
        return f"ALTER USER {statement.name} IDENTIFIED BY {_MASK}"
    if isinstance(statement, statements.Prepare) and "USER" in statement.text.upper():
        return f"PREPARE {statement.name} …"
    if isinstance(statement, statements.Copy) and statement.connection:
        return parsed.text[: parsed.text.upper().find("CONNECTION")] + f"CONNECTION ({_MASK})"
    return parsed.text


def _administrate(services: Services, session: Session) -> None:
    _check_stored(services, session).check_admin()


def _check_stored(services: Services, session: Session) -> Identity:
    """Refuse if users come from a list; only warn if there is no authentication."""
    identity = authorize(services, session)
    if services.authenticator.is_enabled and not services.authenticator.has_stored_users:
        if not identity.is_admin:
            raise PermissionDenied
        raise Unsupported(
            "the users of this server come from user_provider and cannot be changed in SQL",
            hint="change that list, or use catalog_user_provider",
        )
    if not services.authenticator.is_enabled:
        session.warnings.append(_NO_EFFECT)
    return identity


def _check_password(password: str) -> None:
    if not password:
        raise InvalidArguments("the password is empty")
    if len(password) > PASSWORD_CHARS_MAX:
        raise InvalidArguments(f"a password has at most {PASSWORD_CHARS_MAX} characters")
    try:
        password.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArguments("the password is not valid UTF-8") from None


def _check_users(names: tuple[str, ...], services: Services) -> None:
    """All are there before the first is changed."""
    for name in names:
        if services.authenticator.is_given(name):
            raise Unsupported(f"the user {name} comes from user_provider and cannot be changed in SQL")
        services.users.user(name)


def _scope(
    statement: statements.Grant | statements.Revoke, services: Services, session: Session, *, must_exist: bool = True
) -> str:
    if statement.is_everywhere:
        return ANYWHERE
    database = statement.database or session.database
    if must_exist:
        services.catalog.database(database)
    return database


def _access(privileges: frozenset[str]) -> Access:
    return Access.of(can_read="read" in privileges, can_write="write" in privileges)


def _is_hidden(user: StoredUser, services: Services) -> bool:
    return services.authenticator.is_given(user.name)


def _summary(identity: Identity) -> str:
    grants = {ANYWHERE: identity.anywhere} if identity.grants is None else identity.grants.scopes
    return "; ".join(f"{' and '.join(access.words)} in {scope}" for scope, access in sorted(grants.items()))


def _grants_table(name: str, is_admin: bool, grants: dict[str, Access], dialect: Dialect) -> pa.Table:
    user = quoted(name, dialect)
    rows = []
    for scope, access in sorted(grants.items()):
        where = "*.*" if scope == ANYWHERE else f"{quoted(scope, dialect)}.*"
        what = "ALL" if access is Access.ALL else ", ".join(word.upper() for word in access.words)
        option = " WITH GRANT OPTION" if is_admin and scope == ANYWHERE and access is Access.ALL else ""
        rows.append((f"GRANT {what} ON {where} TO {user}{option}",))
    return text_table((f"Grants for {name}",), rows)
