"""Whether the user of a session may run a statement: by its kind, and by the databases that it names.

- A session without a user may do anything where nobody has to log in, and nothing elsewhere.
- Rights are those of now, not those at login: a right that was taken away is gone with the next statement.
- What a query reads is checked when its tables are opened (`tsdb.query`), whatever way leads to them; here it is only
  asked whether the user may read at all.
- A kind of statement that has no rule is an administrator's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from tsdb.auth import SYSTEM, Access, AccessDenied, Grants, Identity, PermissionDenied
from tsdb.database._backup_admin import ADMINISTRATORS_ONLY
from tsdb.database._names import READ_ONLY_DATABASES, resolve, resolve_database
from tsdb.database._services import Services
from tsdb.model import TableInfo
from tsdb.query import Session
from tsdb.sql import statements
from tsdb.sql.lexer import tokenize
from tsdb.sql.statements import Name, Statement


def authorize(services: Services, session: Session) -> Identity:
    """Return the session's user with the current rights; PermissionDenied if there is none and a login is required."""
    identity = session.identity
    if identity is SYSTEM:
        return identity
    if identity is None:
        if services.authenticator.is_enabled:
            raise PermissionDenied("a login is required")
        return SYSTEM
    found = services.authenticator.refresh(identity)
    if found is not identity:
        session.identity = found
    return found


def check_statement(statement: Statement, services: Services, session: Session) -> None:
    """Refuse a statement that the user of a session may not run."""
    identity = authorize(services, session)
    if identity is SYSTEM:
        return
    rule = _RULES.get(type(statement))
    if rule is None:
        identity.check_admin()
    else:
        rule(statement, identity, session)


def check_reading(services: Services, session: Session) -> None:
    """Refuse those who may read nothing."""
    if not authorize(services, session).can_read:
        raise PermissionDenied


def check_writing(services: Services, session: Session) -> None:
    """Refuse those who may write nothing."""
    if not authorize(services, session).can_write:
        raise PermissionDenied


def check_target(session: Session, database: str) -> None:
    """Refuse to write to a database; the session is one that `check_writing` has let pass."""
    if session.identity is not None:
        _write(session.identity, database)


def reading_session(table: TableInfo, session: Session, condition: str) -> Session:
    """Return a session that finds the rows of a table to delete them, for those who may write but not read.

    It may read the one database. The condition must not hold a query: how many rows it deletes would tell too much.
    """
    identity = session.identity
    if identity is None or identity.may_read(table.database):
        return session
    if any(token.word in ("SELECT", "TABLE", "FROM", "WITH", "TQL") for token in tokenize(condition, session.dialect)):
        raise PermissionDenied
    grants = Grants({table.database: Access.ALL})
    return replace(session, identity=Identity(identity.name, grants=grants))


def _read(identity: Identity, database: str) -> None:
    if not identity.can_read:
        raise PermissionDenied
    if database not in READ_ONLY_DATABASES:
        identity.check_read(database)


def _write(identity: Identity, database: str) -> None:
    if not identity.can_write:
        raise PermissionDenied
    if database not in READ_ONLY_DATABASES:
        identity.check_write(database)


def _see(identity: Identity, database: str) -> None:
    if database not in READ_ONLY_DATABASES and not identity.may_see(database):
        raise AccessDenied(identity.name, database)


def _anybody(statement: Statement, identity: Identity, session: Session) -> None:
    """What concerns the session alone, or is checked where it is done."""


def _readers(statement: Statement, identity: Identity, session: Session) -> None:
    if not identity.can_read:
        raise PermissionDenied


def _writers_anywhere(statement: Statement, identity: Identity, session: Session) -> None:
    if Access.WRITE not in identity.anywhere:
        raise PermissionDenied


def _writes_named(statement: Any, identity: Identity, session: Session) -> None:
    _write(identity, resolve(statement.name, session)[0])


def _writes_table(
    statement: statements.Insert | statements.Delete | statements.Update, identity: Identity, session: Session
) -> None:
    _write(identity, resolve(statement.table, session)[0])


def _writes_database(statement: statements.AlterDatabase, identity: Identity, session: Session) -> None:
    _write(identity, resolve_database(statement.name))


def _writes_session(statement: Statement, identity: Identity, session: Session) -> None:
    _write(identity, session.database)


def _drop_tables(statement: statements.DropTable, identity: Identity, session: Session) -> None:
    for name in statement.names:
        _write(identity, resolve(name, session)[0])


def _create_like(statement: statements.CreateTableLike, identity: Identity, session: Session) -> None:
    _write(identity, resolve(statement.name, session)[0])
    _see(identity, resolve(statement.source, session)[0])


def _alter_table(statement: statements.AlterTable, identity: Identity, session: Session) -> None:
    database = resolve(statement.name, session)[0]
    _write(identity, database)
    for operation in statement.operations:
        if isinstance(operation, statements.RenameTableOp) and len(operation.new_name.parts) > 1:
            _write(identity, resolve(operation.new_name, session)[0])


def _copy(statement: statements.Copy, identity: Identity, session: Session) -> None:
    """Files are written by those alone who may write and read what goes into them."""
    database = session.database
    if statement.table is not None:
        database = resolve(statement.table, session)[0]
    elif statement.database is not None:
        database = resolve_database(statement.database)
    if statement.direction == "from":
        _write(identity, database)
    elif statement.query is not None:
        _readers(statement, identity, session)
    else:
        _read(identity, database)
    if statement.direction == "to" and statement.path is not None and not identity.can_write:
        raise PermissionDenied


_OF_SESSION = frozenset(
    {"variables", "variable", "status", "search_path", "warnings", "engines", "charset", "collation", "grants", "users"}
)
"""Kinds of SHOW that every user may run, or that check permissions themselves."""
_OF_TABLE = frozenset({"columns", "index", "region", "create_table", "create_view", "create_flow"})
_EVERYWHERE = frozenset({"databases", "processlist", "flow_status"})


def _show(statement: statements.Show, identity: Identity, session: Session) -> None:
    if statement.what in _OF_SESSION:
        return
    _readers(statement, identity, session)
    if statement.what in _EVERYWHERE:
        return
    database = statement.database or session.database
    if statement.what == "create_database" and statement.name is not None:
        database = resolve_database(statement.name)
    elif statement.what in _OF_TABLE and statement.name is not None and statement.database is None:
        database = _database_of(statement.name, session)
    _read(identity, database)


def _describe(statement: statements.Describe, identity: Identity, session: Session) -> None:
    _read(identity, resolve(statement.name, session)[0])


def _database_of(name: Name, session: Session) -> str:
    return resolve(name, session)[0]


def _use(statement: statements.Use, identity: Identity, session: Session) -> None:
    _see(identity, statement.database)


def _admin(statement: statements.Admin, identity: Identity, session: Session) -> None:
    """A table is a matter of its database; regions have only numbers; a backup has everything, users included."""
    if statement.function.lower() in ADMINISTRATORS_ONLY:
        identity.check_admin()
        return
    first = statement.arguments[0] if statement.arguments else None
    if isinstance(first, str) and not first.isdigit():
        _write(identity, resolve(Name(tuple(first.split("."))), session)[0])
    else:
        _writers_anywhere(statement, identity, session)


_RULES: dict[type, Callable[[Any, Identity, Session], None]] = {
    statements.Query: _readers,
    statements.Explain: _readers,
    statements.Tql: _readers,
    statements.DeclareCursor: _readers,
    statements.Show: _show,
    statements.Describe: _describe,
    statements.CreateDatabase: _writers_anywhere,
    statements.DropDatabase: _writers_anywhere,
    statements.AlterDatabase: _writes_database,
    statements.CreateTable: _writes_named,
    statements.CreateTableLike: _create_like,
    statements.DropTable: _drop_tables,
    statements.TruncateTable: _writes_named,
    statements.AlterTable: _alter_table,
    statements.Comment: _writes_named,
    statements.CreateView: _writes_named,
    statements.DropView: _writes_named,
    statements.CreateFlow: _writes_session,
    statements.DropFlow: _writes_session,
    statements.Insert: _writes_table,
    statements.Delete: _writes_table,
    statements.Update: _writes_table,
    statements.Copy: _copy,
    statements.Use: _use,
    statements.Admin: _admin,
    statements.SetVariable: _anybody,
    statements.SetMany: _anybody,
    statements.Reset: _anybody,
    statements.Kill: _anybody,
    statements.Prepare: _anybody,
    statements.Execute: _anybody,
    statements.Deallocate: _anybody,
    statements.FetchCursor: _anybody,
    statements.MoveCursor: _anybody,
    statements.CloseCursor: _anybody,
    statements.Transaction: _anybody,
    statements.AlterUser: _anybody,
}


def write_rights(session: Session) -> Hashable:
    """Return what tells users apart who may not write everywhere; None for those who may.

    A series may name the database that it belongs to. It is known only to users who wrote it with the same rights,
    which were checked then.
    """
    identity = session.identity
    if identity is None or identity.grants is None or Access.WRITE in identity.anywhere:
        return None
    return frozenset(identity.grants.scopes.items())
