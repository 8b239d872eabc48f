"""Statements as values: the interface between the parser and the database.

Every statement is a frozen dataclass. Expressions that the query engine evaluates (a WHERE, a partition rule, a query)
are kept as `Slice`s of the user's text and never parsed into trees here. Identifiers are already folded: lower case
unless they were quoted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from tsdb.model import ColumnIndex, DataType


class Dialect(StrEnum):
    """How text is parsed: `generic` for HTTP and gRPC, else the dialect of the protocol."""

    GENERIC = "generic"
    MYSQL = "mysql"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of the statement's text, as the user wrote it."""

    text: str
    start: int = 0
    """Where it begins in the text that was parsed, for error messages."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one to three parts: `t`, `db.t`, `tsdb.db.t`."""

    parts: tuple[str, ...]

    @property
    def last(self) -> str:
        return self.parts[-1]

    def __str__(self) -> str:
        return ".".join(self.parts)


class Special(StrEnum):
    """A cell of INSERT … VALUES that is not a value."""

    DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT, WITH, VALUES, TABLE or a parenthesised query: text that goes to the query engine."""

    text: Slice


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [ANALYZE] [VERBOSE] [FORMAT f] statement."""

    statement: Statement
    is_analyze: bool = False
    is_verbose: bool = False
    format: str | None = None
    """In lower case: `json`, `text`, `tree`, `graphviz`, …"""


@dataclass(frozen=True, slots=True)
class Tql:
    """TQL EVAL | EXPLAIN | ANALYZE (start, end, step [, lookback]) promql [AS alias]."""

    verb: str
    """`eval`, `explain` or `analyze`."""
    parameters: tuple[Slice, ...]
    promql: Slice
    alias: str | None = None
    is_verbose: bool = False
    format: str | None = None


# Databases, tables, views -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: Name
    if_not_exists: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    name: Name
    set_options: tuple[tuple[str, str], ...] = ()
    unset_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column of CREATE TABLE or ALTER TABLE ADD COLUMN. `default` has its literal as written, without quotes."""

    name: str
    type: DataType
    is_nullable: bool | None = None
    """None when neither NULL nor NOT NULL was said."""
    default: DefaultExpression | None = None
    is_primary_key: bool = False
    is_time_index: bool = False
    comment: str | None = None
    indexes: tuple[ColumnIndex, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultExpression:
    """The value of DEFAULT: a literal or a call without arguments; the database makes a ColumnDefault of it."""

    text: str
    """A string literal without its quotes, a number with its sign, `true`, or a function's name in lower case."""
    kind: str
    """`string`, `number`, `boolean`, `null`, `function` or `hex` (its digits in lower case)."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE. The parser has checked what grammar can check; keys and options are the database's to judge."""

    name: Name
    columns: tuple[ColumnDef, ...]
    if_not_exists: bool = False
    time_index: str | None = None
    """From `TIME INDEX (c)`, else from the column that says so."""
    primary_key: tuple[str, ...] = ()
    """From `PRIMARY KEY (…)`, else from the column that says so."""
    partition_columns: tuple[str, ...] = ()
    partition_rules: tuple[Slice, ...] = ()
    engine: str = "mito"
    options: tuple[tuple[str, str], ...] = ()
    is_external: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    name: Name
    source: Name
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    names: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    name: Name
    ranges: tuple[tuple[Slice, Slice], ...] = ()


@dataclass(frozen=True, slots=True)
class AddColumnOp:
    column: ColumnDef
    if_not_exists: bool = False
    position: str | None = None
    """`first`, `after` or None for the end."""
    after: str | None = None


@dataclass(frozen=True, slots=True)
class DropColumnOp:
    name: str


@dataclass(frozen=True, slots=True)
class ModifyTypeOp:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class SetDefaultOp:
    name: str
    default: DefaultExpression


@dataclass(frozen=True, slots=True)
class DropDefaultOp:
    name: str


@dataclass(frozen=True, slots=True)
class SetIndexOp:
    name: str
    index: ColumnIndex


@dataclass(frozen=True, slots=True)
class UnsetIndexOp:
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class RenameColumnOp:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class RenameTableOp:
    new_name: Name


@dataclass(frozen=True, slots=True)
class SetOptionsOp:
    options: tuple[tuple[str, str | None], ...]
    """A value of None is SET k = NULL."""


@dataclass(frozen=True, slots=True)
class UnsetOptionsOp:
    keys: tuple[str, ...]


AlterOp: TypeAlias = (
    AddColumnOp
    | DropColumnOp
    | ModifyTypeOp
    | SetDefaultOp
    | DropDefaultOp
    | SetIndexOp
    | UnsetIndexOp
    | RenameColumnOp
    | RenameTableOp
    | SetOptionsOp
    | UnsetOptionsOp
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    name: Name
    operations: tuple[AlterOp, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON TABLE t | COLUMN t.c | FLOW f IS 'text' | NULL."""

    kind: str
    """`table`, `column` or `flow`."""
    name: Name
    column: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class CreateView:
    name: Name
    query: Slice
    text: Slice
    """The whole statement."""
    columns: tuple[str, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateFlow:
    name: Name
    sink: Name
    query: Slice
    or_replace: bool = False
    if_not_exists: bool = False
    expire_after: str | None = None
    eval_interval: str | None = None
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DropFlow:
    name: Name
    if_exists: bool = False


# Rows ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expression:
    """A cell of INSERT … VALUES that must be evaluated."""

    text: Slice


@dataclass(frozen=True, slots=True)
class Literal:
    """A cell that is a literal no value of Python carries exactly: a hex string, a decimal of many digits."""

    kind: str
    """`number` (text as written, a minus included) or `hex` (its digits in lower case)."""
    text: str


Cell: TypeAlias = bool | int | float | str | Special | Expression | Literal | None
"""A cell as the parser gives it. A str is a quoted string; numbers come as int, or float when they have a point or an
exponent, or as a Literal of kind number when `repr` of the float would be another number (decimals of many digits)."""


@dataclass(frozen=True, slots=True)
class Values:
    """The cells of INSERT … VALUES, column by column."""

    columns: tuple[list[Any], ...]
    """One list of cells per column, all of one length."""
    rows: int
    has_expressions: bool = False
    """Whether any cell is an Expression."""


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT or REPLACE INTO t [(columns)] VALUES … | query."""

    table: Name
    columns: tuple[str, ...] = ()
    """None named: all columns of the table in its order."""
    values: Values | None = None
    query: Slice | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    table: Name
    where: Slice | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE t [[AS] alias] SET column = expression, … [WHERE expression]."""

    table: Name
    assignments: tuple[tuple[str, Slice], ...]
    where: Slice | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY t | (query) | DATABASE db  TO | FROM 'path' | STDOUT | STDIN [WITH (…)] [CONNECTION (…)] [LIMIT n]."""

    direction: str
    """`to` or `from`."""
    path: str | None
    """None for STDOUT and STDIN."""
    table: Name | None = None
    query: Slice | None = None
    database: Name | None = None
    options: tuple[tuple[str, str], ...] = ()
    connection: tuple[tuple[str, str], ...] = ()
    limit: int | None = None
    columns: tuple[str, ...] = ()
    """Which columns come from STDIN, none named for all of the table."""


# Looking around -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filter:
    """LIKE 'pattern' or WHERE expression behind SHOW."""

    like: str | None = None
    where: Slice | None = None


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW what. `what` names the form; the rest is filled where the form has it."""

    what: str
    is_full: bool = False
    name: Name | None = None
    """The table, view, flow, database or variable the form names."""
    database: str | None = None
    """From `FROM db` or `IN db`."""
    filter: Filter = Filter()
    is_foreign: bool = False
    """SHOW CREATE TABLE … FOR POSTGRES_FOREIGN_TABLE."""


@dataclass(frozen=True, slots=True)
class Describe:
    name: Name


# Users --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateUser:
    name: str
    password: str = field(repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterUser:
    """ALTER USER: another password."""

    name: str
    password: str = field(repr=False)
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropUser:
    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """GRANT privileges ON scope TO users."""

    privileges: frozenset[str]
    """Of `read` and `write`."""
    users: tuple[str, ...]
    database: str | None = None
    """None: the session's, or all of them."""
    is_everywhere: bool = False
    with_option: bool = False
    """WITH GRANT OPTION: the users become administrators."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """REVOKE privileges ON scope FROM users."""

    privileges: frozenset[str]
    users: tuple[str, ...]
    database: str | None = None
    is_everywhere: bool = False
    takes_option: bool = False
    """The users are no longer administrators."""
    is_whole: bool = False
    """REVOKE ALL, GRANT OPTION FROM: whatever they have, in every scope."""


# Session ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    database: str


@dataclass(frozen=True, slots=True)
class SetVariable:
    """SET [SESSION | LOCAL | GLOBAL | @@…] name = value[, …]; the name in lower case without prefix."""

    name: str
    values: tuple[str, ...]
    """As written, strings without quotes."""


@dataclass(frozen=True, slots=True)
class SetMany:
    """Several assignments in one SET."""

    settings: tuple[SetVariable, ...]


@dataclass(frozen=True, slots=True)
class Admin:
    """ADMIN function(arguments)."""

    function: str
    """As written."""
    arguments: tuple[str | int | float | bool | None, ...]
    title: str
    """The statement re-rendered, which names the column of the answer."""


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL 'process id' | KILL [QUERY] connection id."""

    process: str | None = None
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE s FROM 'text' (MySQL) | PREPARE s [(types)] AS statement (PostgreSQL)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Execute:
    name: str
    arguments: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE [PREPARE] s | ALL (name None)."""

    name: str | None


@dataclass(frozen=True, slots=True)
class DeclareCursor:
    name: str
    query: Slice
    is_scrollable: bool = False


FETCH_ALL = 2**63 - 1
"""The count of FETCH ALL."""


@dataclass(frozen=True, slots=True)
class CursorStep:
    """How far FETCH and MOVE go."""

    kind: str = "forward"
    """`forward` over so many rows, `absolute` to the row of that number, `relative` to the row so many rows away."""
    count: int = 1
    """Negative: back; of `absolute`: counted from the last row."""


@dataclass(frozen=True, slots=True)
class FetchCursor:
    name: str
    step: CursorStep


@dataclass(frozen=True, slots=True)
class MoveCursor:
    name: str
    step: CursorStep


@dataclass(frozen=True, slots=True)
class CloseCursor:
    name: str | None
    """None for CLOSE ALL."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """BEGIN, START TRANSACTION, COMMIT, ROLLBACK, LOCK/UNLOCK TABLES: accepted on MySQL and PostgreSQL, no effect."""

    verb: str


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET name | ALL, DISCARD ALL, UNLISTEN: what PostgreSQL's clients send before they lend a connection again."""

    verb: str
    """`reset`, `discard` or `unlisten`."""
    name: str | None = None
    """None for all."""


Statement: TypeAlias = (
    Query
    | Explain
    | Tql
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | CreateTable
    | CreateTableLike
    | DropTable
    | TruncateTable
    | AlterTable
    | Comment
    | CreateView
    | DropView
    | CreateFlow
    | DropFlow
    | Insert
    | Delete
    | Update
    | Copy
    | CreateUser
    | AlterUser
    | DropUser
    | Grant
    | Revoke
    | Show
    | Describe
    | Use
    | SetVariable
    | SetMany
    | Admin
    | Kill
    | Prepare
    | Execute
    | Deallocate
    | DeclareCursor
    | FetchCursor
    | MoveCursor
    | CloseCursor
    | Transaction
    | Reset
)
