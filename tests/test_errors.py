"""The status table is total, and right where it has been checked against clients' expectations."""

from __future__ import annotations

import re

import pytest

from tsdb import errors
from tsdb.errors import REASON_WIRE, WIRE, ConfigError, Reason, Status, TsdbError, wire

_GRPC_CODES = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "UNAUTHENTICATED",
}


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_code_on_every_protocol(status: Status) -> None:
    row = WIRE[status]
    assert row.http in (200, 400, 401, 403, 429, 500, 503, 504)
    assert row.grpc in _GRPC_CODES
    assert (status is Status.SUCCESS) == (row.mysql_errno == 0)
    assert re.fullmatch(r"[0-9A-Z]{5}", row.mysql_state)
    assert re.fullmatch(r"[0-9A-Z]{5}", row.sqlstate)


def test_the_table_has_no_other_rows() -> None:
    assert set(WIRE) == set(Status)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_a_mistake_in_the_request_on_every_protocol(reason: Reason) -> None:
    row = REASON_WIRE[reason]
    assert (row.http, row.grpc, row.is_fault) == (400, "INVALID_ARGUMENT", False)
    assert row.mysql_errno > 1000
    assert re.fullmatch(r"[0-9A-Z]{5}", row.mysql_state)
    assert re.fullmatch(r"[0-9A-Z]{5}", row.sqlstate)


def test_the_reason_of_an_error_wins_over_its_status() -> None:
    error = TsdbError("division by zero")
    assert errors.wire_of(error) is WIRE[Status.INTERNAL]
    error.sql_reason = Reason.DIVISION_BY_ZERO
    assert errors.wire_of(error).sqlstate == "22012"
    assert not errors.is_fault(error)


# Number, name, HTTP, gRPC, MySQL errno/state, SQLSTATE: typed in from the protocols' description.
@pytest.mark.parametrize(
    ("number", "name", "http", "grpc", "mysql", "sqlstate"),
    [
        (0, "Success", 200, "OK", (0, "00000"), "00000"),
        (1001, "Unsupported", 400, "UNIMPLEMENTED", (1235, "42000"), "0A000"),
        (1004, "InvalidArguments", 400, "INVALID_ARGUMENT", (1210, "HY000"), "22023"),
        (1005, "Cancelled", 504, "CANCELLED", (1317, "70100"), "57014"),
        (2000, "InvalidSyntax", 400, "INVALID_ARGUMENT", (1149, "42000"), "42601"),
        (4000, "TableAlreadyExists", 400, "ALREADY_EXISTS", (1050, "42S01"), "42P07"),
        (4001, "TableNotFound", 400, "NOT_FOUND", (1146, "42S02"), "42P01"),
        (4002, "TableColumnNotFound", 400, "NOT_FOUND", (1054, "42S22"), "42703"),
        (4004, "DatabaseNotFound", 400, "NOT_FOUND", (1102, "42000"), "42704"),
        (4007, "RegionReadonly", 401, "PERMISSION_DENIED", (1836, "HY000"), "25006"),
        (4009, "RegionBusy", 503, "RESOURCE_EXHAUSTED", (1815, "HY000"), "55000"),
        (4011, "DatabaseAlreadyExists", 400, "ALREADY_EXISTS", (1007, "HY000"), "42P04"),
        (6001, "RateLimited", 429, "RESOURCE_EXHAUSTED", (1637, "HY000"), "54000"),
        (7002, "UserPasswordMismatch", 401, "UNAUTHENTICATED", (1044, "42000"), "28P01"),
        (7006, "PermissionDenied", 403, "PERMISSION_DENIED", (1045, "28000"), "42501"),
        (8001, "FlowNotFound", 400, "NOT_FOUND", (1146, "42S02"), "42P01"),
    ],
)
def test_codes_are_those_that_clients_know(
    number: int, name: str, http: int, grpc: str, mysql: tuple[int, str], sqlstate: str
) -> None:
    status = Status(number)
    row = wire(status)
    assert status.title == name
    assert (row.http, row.grpc, (row.mysql_errno, row.mysql_state), row.sqlstate) == (
        http,
        grpc,
        mysql,
        sqlstate,
    )


def test_faults_of_the_server_are_logged_as_errors() -> None:
    faults = {int(status) for status, row in WIRE.items() if row.is_fault}
    assert faults == {1000, 1002, 1003, 1005, 1006, 1007, 1008, 5000, 6000}


def test_who_changed_his_mind_and_who_came_at_a_bad_moment_are_no_faults() -> None:
    assert not errors.is_fault(errors.Cancelled("the statement was cancelled"))
    assert not errors.is_fault(errors.Busy("too many at a time"))
    assert errors.is_fault(errors.DeadlineExceeded("it took too long"))
    assert not errors.is_fault(errors.InvalidArguments("what is this"))


def test_every_exception_is_in_the_drawn_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")) | {"TsdbError"}
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, TsdbError)}
    assert drawn == defined


def test_message_says_what_where_and_what_next() -> None:
    error = TsdbError("the column has another type", hint="send a number", table="cpu", line=412)
    assert str(error) == "the column has another type (table: cpu, line: 412); send a number"
    assert error.fields == {"table": "cpu", "line": 412}


def test_configuration_error_lists_its_problems() -> None:
    assert str(ConfigError(["a: x", "b: y"])) == "the configuration has 2 problems:\n  a: x\n  b: y"
    assert str(ConfigError(["a: x"])) == "the configuration has 1 problem:\n  a: x"
