"""Every error of the product: one tree of exceptions, one table of status codes.

A `Status` says what went wrong in the product's own numbering. `WIRE` is the only place that knows how a status looks
to a client: HTTP status, gRPC code, MySQL errno and state, PostgreSQL SQLSTATE. Where a status is too coarse for the
codes that drivers act on, an error also has a `Reason`, whose row in `REASON_WIRE` replaces that of the status. Servers
translate with `wire_of(error)` and never choose codes themselves.

    TsdbError                     carries a status, and fields that say where
    ├── InvalidArguments          the request is wrong: change it
    │   ├── InvalidSyntax         … its text cannot be parsed
    │   ├── Unsupported           … it asks for something this server does not do
    │   ├── UnknownProcess        … KILL names nothing that runs
    │   └── ConfigError           … the configuration, with all of its problems at once
    ├── StartError                the process cannot start here: address taken, directory locked
    ├── DeadlineExceeded          it took too long: ask for less, or allow more time
    │   └── QueryTimeout          … longer than its client allows
    ├── Cancelled                 the client no longer wants the answer
    ├── Busy                      too much to do at this moment: try again a little later
    └── BodyTooLarge              the request body is over `http.body_limit`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar


class Status(IntEnum):
    """What went wrong. The number travels in error bodies and headers, the CamelCase name in messages."""

    SUCCESS = 0

    UNKNOWN = 1000
    UNSUPPORTED = 1001
    UNEXPECTED = 1002
    INTERNAL = 1003
    INVALID_ARGUMENTS = 1004
    CANCELLED = 1005
    ILLEGAL_STATE = 1006
    EXTERNAL = 1007
    DEADLINE_EXCEEDED = 1008
    SUSPENDED = 1009

    INVALID_SYNTAX = 2000

    PLAN_QUERY = 3000
    ENGINE_EXECUTE_QUERY = 3001

    TABLE_ALREADY_EXISTS = 4000
    TABLE_NOT_FOUND = 4001
    TABLE_COLUMN_NOT_FOUND = 4002
    TABLE_COLUMN_EXISTS = 4003
    DATABASE_NOT_FOUND = 4004
    REGION_NOT_FOUND = 4005
    REGION_ALREADY_EXISTS = 4006
    REGION_READONLY = 4007
    REGION_NOT_READY = 4008
    REGION_BUSY = 4009
    TABLE_UNAVAILABLE = 4010
    DATABASE_ALREADY_EXISTS = 4011

    STORAGE_UNAVAILABLE = 5000
    REQUEST_OUTDATED = 5001

    RUNTIME_RESOURCES_EXHAUSTED = 6000
    RATE_LIMITED = 6001

    USER_NOT_FOUND = 7000
    UNSUPPORTED_PASSWORD_TYPE = 7001
    USER_PASSWORD_MISMATCH = 7002
    AUTH_HEADER_NOT_FOUND = 7003
    INVALID_AUTH_HEADER = 7004
    ACCESS_DENIED = 7005
    PERMISSION_DENIED = 7006

    FLOW_ALREADY_EXISTS = 8000
    FLOW_NOT_FOUND = 8001

    TRIGGER_ALREADY_EXISTS = 9000
    TRIGGER_NOT_FOUND = 9001

    @property
    def title(self) -> str:
        """The name as clients see it: `TableNotFound`."""
        return self.name.title().replace("_", "")


class Reason(Enum):
    """What exactly is wrong with a statement, where SQL has a code of its own for it."""

    UNDEFINED_TABLE = "undefined table"
    UNDEFINED_COLUMN = "undefined column"
    INVALID_NAME = "invalid name"
    UNDEFINED_FUNCTION = "undefined function"
    WRONG_ARGUMENTS = "no such arguments of a function"
    AMBIGUOUS_COLUMN = "ambiguous column"
    DUPLICATE_ALIAS = "duplicate alias"
    GROUPING = "column outside of GROUP BY"
    WINDOWING = "window function in a wrong place, or with a wrong frame"
    COLUMN_REFERENCE = "no such position of a column"
    DATATYPE_MISMATCH = "datatype mismatch"
    SYNTAX = "syntax error"
    COLUMN_COUNT = "different numbers of columns"
    CARDINALITY = "more than one row from a scalar subquery"
    DIVISION_BY_ZERO = "division by zero"
    OUT_OF_RANGE = "number out of range"
    INVALID_TEXT = "invalid text representation"
    INVALID_DATETIME = "invalid datetime format"
    DATETIME_OUT_OF_RANGE = "datetime out of range"
    INVALID_REGEX = "invalid regular expression"
    INVALID_JSON = "invalid JSON"
    INVALID_ENCODING = "text that is not UTF-8"
    INVALID_PARAMETER = "invalid parameter value"
    NOT_SUPPORTED = "not supported in this place"


@dataclass(frozen=True, slots=True)
class Wire:
    """How one status looks on each protocol."""

    http: int
    grpc: str
    mysql_errno: int
    mysql_state: str
    sqlstate: str
    is_fault: bool = False
    """The server's fault rather than the request's: logged at ERROR, everything else at DEBUG."""


# MySQL's errno for "the engine reported an error", PostgreSQL's for "internal error": what a status gets that has no
# closer relative there.
_MYSQL_OTHER = (1815, "HY000")
_PG_OTHER = "XX000"

WIRE: dict[Status, Wire] = {
    Status.SUCCESS: Wire(200, "OK", 0, "00000", "00000"),
    Status.UNKNOWN: Wire(500, "UNKNOWN", 1105, "HY000", _PG_OTHER, is_fault=True),
    Status.UNSUPPORTED: Wire(400, "UNIMPLEMENTED", 1235, "42000", "0A000"),
    Status.UNEXPECTED: Wire(500, "INTERNAL", *_MYSQL_OTHER, _PG_OTHER, is_fault=True),
    Status.INTERNAL: Wire(500, "INTERNAL", *_MYSQL_OTHER, _PG_OTHER, is_fault=True),
    Status.INVALID_ARGUMENTS: Wire(400, "INVALID_ARGUMENT", 1210, "HY000", "22023"),
    Status.CANCELLED: Wire(504, "CANCELLED", 1317, "70100", "57014", is_fault=True),
    Status.ILLEGAL_STATE: Wire(500, "INTERNAL", *_MYSQL_OTHER, _PG_OTHER, is_fault=True),
    Status.EXTERNAL: Wire(503, "UNKNOWN", 1105, "HY000", "58000", is_fault=True),
    Status.DEADLINE_EXCEEDED: Wire(504, "DEADLINE_EXCEEDED", 1317, "70100", "57014", is_fault=True),
    Status.SUSPENDED: Wire(503, "RESOURCE_EXHAUSTED", 1053, "08S01", "57P03"),
    Status.INVALID_SYNTAX: Wire(400, "INVALID_ARGUMENT", 1149, "42000", "42601"),
    Status.PLAN_QUERY: Wire(400, "INTERNAL", *_MYSQL_OTHER, "42000"),
    Status.ENGINE_EXECUTE_QUERY: Wire(400, "INTERNAL", *_MYSQL_OTHER, "22000"),
    Status.TABLE_ALREADY_EXISTS: Wire(400, "ALREADY_EXISTS", 1050, "42S01", "42P07"),
    Status.TABLE_NOT_FOUND: Wire(400, "NOT_FOUND", 1146, "42S02", "42P01"),
    Status.TABLE_COLUMN_NOT_FOUND: Wire(400, "NOT_FOUND", 1054, "42S22", "42703"),
    Status.TABLE_COLUMN_EXISTS: Wire(400, "ALREADY_EXISTS", 1060, "42S21", "42701"),
    Status.DATABASE_NOT_FOUND: Wire(400, "NOT_FOUND", 1102, "42000", "42704"),
    Status.REGION_NOT_FOUND: Wire(400, "NOT_FOUND", 1146, "42S02", "42P01"),
    Status.REGION_ALREADY_EXISTS: Wire(400, "ALREADY_EXISTS", 1050, "42S01", "42P07"),
    Status.REGION_READONLY: Wire(401, "PERMISSION_DENIED", 1836, "HY000", "25006"),
    Status.REGION_NOT_READY: Wire(503, "UNAVAILABLE", *_MYSQL_OTHER, "55000"),
    Status.REGION_BUSY: Wire(503, "RESOURCE_EXHAUSTED", *_MYSQL_OTHER, "55000"),
    Status.TABLE_UNAVAILABLE: Wire(503, "UNAVAILABLE", *_MYSQL_OTHER, "55000"),
    Status.DATABASE_ALREADY_EXISTS: Wire(400, "ALREADY_EXISTS", 1007, "HY000", "42P04"),
    Status.STORAGE_UNAVAILABLE: Wire(503, "UNAVAILABLE", *_MYSQL_OTHER, _PG_OTHER, is_fault=True),
    Status.REQUEST_OUTDATED: Wire(400, "INVALID_ARGUMENT", *_MYSQL_OTHER, _PG_OTHER),
    Status.RUNTIME_RESOURCES_EXHAUSTED: Wire(500, "RESOURCE_EXHAUSTED", 1041, "HY000", "53000", is_fault=True),
    Status.RATE_LIMITED: Wire(429, "RESOURCE_EXHAUSTED", 1637, "HY000", "54000"),
    Status.USER_NOT_FOUND: Wire(401, "NOT_FOUND", 1449, "HY000", "28P01"),
    Status.UNSUPPORTED_PASSWORD_TYPE: Wire(401, "UNAUTHENTICATED", 1827, "HY000", "28P01"),
    Status.USER_PASSWORD_MISMATCH: Wire(401, "UNAUTHENTICATED", 1044, "42000", "28P01"),
    Status.AUTH_HEADER_NOT_FOUND: Wire(401, "UNAUTHENTICATED", 1251, "08004", "28000"),
    Status.INVALID_AUTH_HEADER: Wire(401, "UNAUTHENTICATED", 1251, "08004", "28000"),
    Status.ACCESS_DENIED: Wire(403, "PERMISSION_DENIED", 1045, "28000", "42501"),
    Status.PERMISSION_DENIED: Wire(403, "PERMISSION_DENIED", 1045, "28000", "42501"),
    Status.FLOW_ALREADY_EXISTS: Wire(400, "ALREADY_EXISTS", 1050, "42S01", "42P07"),
    Status.FLOW_NOT_FOUND: Wire(400, "NOT_FOUND", 1146, "42S02", "42P01"),
    Status.TRIGGER_ALREADY_EXISTS: Wire(400, "ALREADY_EXISTS", *_MYSQL_OTHER, "42P07"),
    Status.TRIGGER_NOT_FOUND: Wire(400, "NOT_FOUND", *_MYSQL_OTHER, "42P01"),
}

_BAD = (400, "INVALID_ARGUMENT")

REASON_WIRE: dict[Reason, Wire] = {
    Reason.UNDEFINED_TABLE: Wire(*_BAD, 1146, "42S02", "42P01"),
    Reason.INVALID_NAME: Wire(*_BAD, 1103, "42000", "42602"),
    Reason.UNDEFINED_COLUMN: Wire(*_BAD, 1054, "42S22", "42703"),
    Reason.UNDEFINED_FUNCTION: Wire(*_BAD, 1305, "42000", "42883"),
    Reason.WRONG_ARGUMENTS: Wire(*_BAD, 1582, "42000", "42883"),
    Reason.AMBIGUOUS_COLUMN: Wire(*_BAD, 1052, "23000", "42702"),
    Reason.DUPLICATE_ALIAS: Wire(*_BAD, 1066, "42000", "42712"),
    Reason.GROUPING: Wire(*_BAD, 1055, "42000", "42803"),
    Reason.NOT_SUPPORTED: Wire(*_BAD, 1235, "42000", "0A000"),
    Reason.WINDOWING: Wire(*_BAD, 3593, "HY000", "42P20"),
    Reason.COLUMN_REFERENCE: Wire(*_BAD, 1054, "42S22", "42P10"),
    Reason.DATATYPE_MISMATCH: Wire(*_BAD, 1210, "HY000", "42804"),
    Reason.SYNTAX: Wire(*_BAD, 1064, "42000", "42601"),
    Reason.COLUMN_COUNT: Wire(*_BAD, 1222, "21000", "42601"),
    Reason.CARDINALITY: Wire(*_BAD, 1242, "21000", "21000"),
    Reason.DIVISION_BY_ZERO: Wire(*_BAD, 1365, "22012", "22012"),
    Reason.OUT_OF_RANGE: Wire(*_BAD, 1690, "22003", "22003"),
    Reason.INVALID_TEXT: Wire(*_BAD, 1292, "22007", "22P02"),
    Reason.INVALID_DATETIME: Wire(*_BAD, 1292, "22007", "22007"),
    Reason.DATETIME_OUT_OF_RANGE: Wire(*_BAD, 1441, "22008", "22008"),
    Reason.INVALID_REGEX: Wire(*_BAD, 3685, "HY000", "2201B"),
    Reason.INVALID_JSON: Wire(*_BAD, 3141, "22032", "22032"),
    Reason.INVALID_ENCODING: Wire(*_BAD, 1300, "HY000", "22021"),
    Reason.INVALID_PARAMETER: Wire(*_BAD, 1210, "HY000", "22023"),
}


def is_fault(error: TsdbError) -> bool:
    """Tell whether an error is to be logged as one of the server.

    A client that does not want an answer any more, or not after some time, and many who want one at once, are none.
    """
    return wire_of(error).is_fault and not isinstance(error, Cancelled | QueryTimeout | Busy)


def wire(status: Status) -> Wire:
    """Return how a status looks on each protocol."""
    return WIRE[status]


def wire_of(error: TsdbError) -> Wire:
    """Return how an error looks on each protocol: by its reason if it has one, else by its status."""
    return WIRE[error.status] if error.sql_reason is None else REASON_WIRE[error.sql_reason]


class TsdbError(Exception):
    """The root of the tree: what happened, where, and what to do next.

    `fields` say where (table, column, line, …) and are printed behind the message; `hint` says what to do next.
    """

    status: ClassVar[Status] = Status.INTERNAL
    sql_reason: Reason | None = None
    statement: str | None = None
    """The statement that failed, without passwords, for the log."""

    def __init__(self, message: str, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def __str__(self) -> str:
        where = ", ".join(f"{name}: {value}" for name, value in self.fields.items())
        text = f"{self.message} ({where})" if where else self.message
        return f"{text}; {self.hint}" if self.hint else text


class InvalidArguments(TsdbError):
    """The request is wrong in a way that only its sender can mend."""

    status = Status.INVALID_ARGUMENTS


class InvalidSyntax(InvalidArguments):
    """The text of the request cannot be parsed."""

    status = Status.INVALID_SYNTAX


class Unsupported(InvalidArguments):
    """The request is well formed and asks for something this server does not do."""

    status = Status.UNSUPPORTED


class ConfigError(InvalidArguments):
    """The configuration is wrong. All problems are reported at once, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"the configuration has {count}:{lines}")


class StartError(TsdbError):
    """The process cannot start in this place: an address is taken, a directory is locked or not writable."""

    status = Status.ILLEGAL_STATE


class DeadlineExceeded(TsdbError):
    """The work did not finish before its deadline."""

    status = Status.DEADLINE_EXCEEDED


class QueryTimeout(DeadlineExceeded):
    """A query did not finish in the time that its client has set (`statement_timeout`)."""


class Cancelled(TsdbError):
    """The work was stopped because its answer is not wanted any more."""

    status = Status.CANCELLED


class UnknownProcess(InvalidArguments):
    """KILL names a statement or connection that does not exist."""


class Busy(TsdbError):
    """There is too much to do at this moment: the same request may succeed a little later."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED
    retry_after_seconds = 1


class BodyTooLarge(InvalidArguments):
    """The request body is over the limit; it was not read to its end."""

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"the request body is larger than {limit_bytes} bytes",
            hint="send smaller requests or raise http.body_limit",
        )
