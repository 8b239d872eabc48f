"""ADMIN: functions that do something to tables and regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tsdb.database._names import resolve
from tsdb.database._rows import stored_in
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments, Status, TsdbError, Unsupported
from tsdb.model import RegionId, TableInfo, table_id_of
from tsdb.query import Session, TableRecords
from tsdb.sql.statements import Admin, Name

Arguments = Sequence[str | int | float | bool | None]


class AdminTargetMissing(TsdbError):
    """What an ADMIN function should work on is not there."""

    status = Status.UNEXPECTED


def admin(statement: Admin, services: Services, session: Session) -> TableRecords:
    """Call an ADMIN function; its answer is one row."""
    function = _FUNCTIONS.get(statement.function.lower())
    if function is None:
        raise InvalidArguments(
            f"there is no ADMIN function {statement.function!r}", hint=f"there are {', '.join(sorted(_FUNCTIONS))}"
        )
    value = function(statement.arguments, services, session)
    column = pa.array([value], pa.string() if isinstance(value, str) else pa.uint64())
    return TableRecords(pa.table({statement.title: column}))


def _expect(arguments: Arguments, *, least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise InvalidArguments(f"Expected {wanted} args, but actual {len(arguments)}")


def _table(argument: Any, services: Services, session: Session) -> TableInfo:
    if not isinstance(argument, str):
        raise InvalidArguments(f"expected the name of a table as a string, not {argument!r}")
    parts = tuple(argument.split("."))
    database, name = resolve(Name(parts), session)
    table = services.catalog.find_table(database, name)
    if table is None:
        raise AdminTargetMissing(f"Table not found: {argument}")
    return table


def _region(argument: Any, services: Services) -> RegionId:
    if isinstance(argument, str) and argument.isdigit():
        argument = int(argument)
    if not isinstance(argument, int) or isinstance(argument, bool):
        raise InvalidArguments(f"expected the id of a region as a number, not {argument!r}")
    region = RegionId(argument)
    table = services.catalog.table_by_id(table_id_of(region))
    if table is None or region not in table.region_ids:
        raise AdminTargetMissing(f"Region not found: {argument}")
    return region


def _flush_table(arguments: Arguments, services: Services, session: Session) -> int:
    _expect(arguments, least=1, most=1)
    table = stored_in(services, _table(arguments[0], services, session))
    for done in [services.regions.flush(region) for region in table.region_ids]:
        done.result()
    return 0


def _flush_region(arguments: Arguments, services: Services, session: Session) -> int:
    _expect(arguments, least=1, most=1)
    services.regions.flush(_region(arguments[0], services)).result()
    return 0


def _compact_table(arguments: Arguments, services: Services, session: Session) -> int:
    """`compact_table(name[, kind[, options]])`."""
    _expect(arguments, least=1, most=3)
    table = stored_in(services, _table(arguments[0], services, session))
    if len(arguments) > 1:
        _check_compaction(arguments[1], arguments[2] if len(arguments) > 2 else "")
    for done in [services.regions.compact(region) for region in table.region_ids]:
        done.result()
    return 0


def _compact_region(arguments: Arguments, services: Services, session: Session) -> int:
    _expect(arguments, least=1, most=1)
    services.regions.compact(_region(arguments[0], services)).result()
    return 0


_REGULAR = frozenset({"regular", "twcs"})
_BY_WINDOW = frozenset({"strict_window", "swcs"})


def _check_compaction(kind: Any, options: Any) -> None:
    """Refuse a kind of compaction, or options of it, that mean nothing here."""
    if not isinstance(kind, str) or kind.lower() not in _REGULAR | _BY_WINDOW:
        known = ", ".join(sorted(_REGULAR | _BY_WINDOW))
        raise InvalidArguments(f"there is no compaction of the kind {kind!r}", hint=f"there are {known}")
    if kind.lower() in _BY_WINDOW:
        raise Unsupported(f"compact_table: files are not cut at windows of time, {kind!r} has no effect")
    if not isinstance(options, str):
        raise InvalidArguments(f"expected the options of a compaction as a string, not {options!r}")
    for part in filter(None, (each.strip() for each in options.split(","))):
        key, _, value = (each.strip() for each in part.partition("="))
        if key != "parallelism":
            raise InvalidArguments(f"a regular compaction has no option {part!r}", hint="it has parallelism")
        if not value.isdecimal() or int(value) < 1:
            raise InvalidArguments(f"parallelism: expected a positive number, received {value!r}")


def _discard_unflushed(arguments: Arguments, services: Services, session: Session) -> int:
    _expect(arguments, least=1, most=1)
    argument = arguments[0]
    if isinstance(argument, int) or (isinstance(argument, str) and argument.isdigit()):
        regions: tuple[RegionId, ...] = (_region(argument, services),)
    else:
        regions = _table(argument, services, session).region_ids
    for done in [services.regions.discard_unflushed(region) for region in regions]:
        done.result()
    return 0


_FUNCTIONS: dict[str, Callable[[Arguments, Services, Session], int | str]] = {
    "flush_table": _flush_table,
    "flush_region": _flush_region,
    "compact_table": _compact_table,
    "compact_region": _compact_region,
    "discard_unflushed": _discard_unflushed,
}
