"""The functions of PostgreSQL's advisory locks, of one bigint."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tsdb.errors import TsdbError
from tsdb.query.advisory_locks import SessionLocks
from tsdb.query.functions import Function, FunctionError


def advisory_functions(locks: SessionLocks | None) -> list[Function]:
    """Return the functions that lock and unlock for a session."""

    def owned() -> SessionLocks:
        if locks is None:
            raise FunctionError("there are no advisory locks on this connection")
        return locks

    def take(number: int, *, is_transaction: bool) -> bool:
        try:
            return owned().take(number, is_transaction=is_transaction)
        except TsdbError as error:
            raise FunctionError(str(error)) from error

    def insist(number: int, *, is_transaction: bool) -> str:
        if not take(number, is_transaction=is_transaction):
            owned().refused = number
            raise FunctionError(f"another connection holds the advisory lock {number}")
        return ""

    def release_all(_: int) -> str:
        owned().release_session()
        return ""

    return [
        _by_number("pg_advisory_lock", pa.string(), lambda number: insist(number, is_transaction=False)),
        _by_number("pg_advisory_xact_lock", pa.string(), lambda number: insist(number, is_transaction=True)),
        _by_number("pg_try_advisory_lock", pa.bool_(), lambda number: take(number, is_transaction=False)),
        _by_number("pg_try_advisory_xact_lock", pa.bool_(), lambda number: take(number, is_transaction=True)),
        _by_number("pg_advisory_unlock", pa.bool_(), lambda number: owned().release(number)),
        _by_number("pg_advisory_unlock_session", pa.string(), release_all),
    ]


def _by_number(name: str, result: pa.DataType, of: Callable[[int], object]) -> Function:
    def body(numbers: pa.Array) -> pa.Array:
        return pa.array([None if each is None else of(each) for each in numbers.to_pylist()], result)

    return Function(name, (pa.int64(),), result, body, "volatile")
