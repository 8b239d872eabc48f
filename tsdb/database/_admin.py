"""ADMIN: functions that do something to tables and regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tsdb.database._backup_admin import (
    ADMINISTRATORS_ONLY,
    BACKUP_FUNCTIONS,
    RESTORE_TABLE,
    SKIP_LOG_OBJECT,
    check_count,
    run_backup_function,
)
from tsdb.database._cluster_admin import balance_regions, migrate_region, procedure_state, retry_procedures
from tsdb.database._names import resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.copying.restore_table import restore_table
from tsdb.engine import StrictWindows, VerifiedFiles
from tsdb.errors import InvalidArguments, Reason, Status, TsdbError
from tsdb.model import RegionId, TableInfo, parse_timestamp, table_id_of
from tsdb.query import Session, TableRecords
from tsdb.sql.statements import Admin, Name
from tsdb.units import Duration

Arguments = Sequence[str | int | float | bool | None]


_NAME_PART = re.compile(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^.]+')


class AdminTargetMissing(TsdbError):
    """What an ADMIN function should work on is not there."""

    status = Status.UNEXPECTED
    sql_reason = Reason.UNDEFINED_TABLE


def admin(statement: Admin, services: Services, session: Session, process: Process) -> TableRecords:
    """Call an ADMIN function; its answer is one row."""
    value = _call(statement, services, session, process)
    column = pa.array([value], pa.string() if isinstance(value, str) else pa.uint64())
    return TableRecords(pa.table({statement.title: column}))


def _call(statement: Admin, services: Services, session: Session, process: Process) -> int | str:
    name = statement.function.lower()
    if name in BACKUP_FUNCTIONS:
        return run_backup_function(services.backups, name, statement.arguments, process)
    if name == RESTORE_TABLE:
        return restore_table(statement.arguments, services, session, process)
    function = _FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(sorted({*_FUNCTIONS, *ADMINISTRATORS_ONLY}))
        raise InvalidArguments(f"there is no ADMIN function {statement.function!r}", hint=f"there are {known}")
    call, least, most = function
    check_count(statement.arguments, least, most)
    return call(statement.arguments, services, session)


def _table(argument: Any, services: Services, session: Session) -> TableInfo:
    if not isinstance(argument, str):
        raise InvalidArguments(f"expected the name of a table as a string, not {argument!r}")
    # A dot may be part of a name, so a table that is called just so goes first.
    table = services.catalog.find_table(session.database, argument)
    if table is None:
        database, name = resolve(Name(_name_parts(argument)), session)
        table = services.catalog.find_table(database, name)
    if table is None:
        raise AdminTargetMissing(f"Table not found: {argument}")
    return table


def _name_parts(text: str) -> tuple[str, ...]:
    """Cut `database.table` at its dots; parts in quotes may have dots of their own."""
    parts = []
    for each in _NAME_PART.findall(text):
        quote = each[0] if each[0] in '"`' and len(each) > 1 else ""
        parts.append(each[1:-1].replace(quote * 2, quote) if quote else each)
    return tuple(parts) or (text,)


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
    table = services.catalog.stored_in(_table(arguments[0], services, session))
    for done in [services.regions.flush(region) for region in table.region_ids]:
        done.result()
    return 0


def _flush_region(arguments: Arguments, services: Services, session: Session) -> int:
    services.regions.flush(_region(arguments[0], services)).result()
    return 0


def _compact_table(arguments: Arguments, services: Services, session: Session) -> int:
    """`compact_table(name[, kind[, options]])`."""
    table = services.catalog.stored_in(_table(arguments[0], services, session))
    return _compact(table.region_ids, arguments[1:], services, session)


def _compact_region(arguments: Arguments, services: Services, session: Session) -> int:
    """`compact_region(id[, kind[, options]])`."""
    return _compact([_region(arguments[0], services)], arguments[1:], services, session)


def _compact(regions: Sequence[RegionId], how: Arguments, services: Services, session: Session) -> int:
    """Compact regions at the same time; no row changes by that. The first error is raised when all of them are done."""
    kind = how[0] if how else "regular"
    options = how[1] if len(how) > 1 else ""
    request = _read_compaction(kind, options, session)
    started = [services.regions.compact(region, request.strict, parallelism=request.parallelism) for region in regions]
    wait(started)
    for done in started:
        done.result()
    return 0


def _verify_table(arguments: Arguments, services: Services, session: Session) -> str:
    """Read all data files of a table, and compare them with the manifest."""
    table = services.catalog.stored_in(_table(arguments[0], services, session))
    return _verify(table.region_ids, services)


def _verify_region(arguments: Arguments, services: Services, session: Session) -> str:
    return _verify([_region(arguments[0], services)], services)


def _verify_quarantined(arguments: Arguments, services: Services, session: Session) -> str:
    """Read the quarantined data files of a table again: those that are whole are quarantined no more."""
    table = services.catalog.stored_in(_table(arguments[0], services, session))
    return _verify(table.region_ids, services, is_quarantined=True)


def _verify(regions: Sequence[RegionId], services: Services, *, is_quarantined: bool = False) -> str:
    started = [services.regions.verify(region, is_quarantined=is_quarantined) for region in regions]
    return _format_verified([done.result() for done in started])


_SHOWN_MAX = 16
"""How many damaged files an answer names; `information_schema.ssts_manifest` has all of them."""


def _format_verified(found: Sequence[VerifiedFiles]) -> str:
    """Say what was found in a line: first whether all is well."""
    damaged = [each for one in found for each in one.damaged]
    indexes = [each for one in found for each in one.index_damaged]
    files, rows = sum(one.files for one in found), sum(one.rows for one in found)
    released = sum(one.released for one in found)
    parts = [f"{files} files", f"{rows} rows", f"{len(damaged)} damaged"]
    if released:
        parts.append(f"{released} released from quarantine")
    seen = [
        (one.visible_rows, one.checksum) for one in found if one.visible_rows is not None and one.checksum is not None
    ]
    if len(seen) == len(found):
        checksum = sum(each for _, each in seen) % (1 << 64)
        parts.append(f"{sum(rows for rows, _ in seen)} visible rows with checksum {checksum:016x}")
    lines = [f"{path}: {reason}" for path, reason in damaged]
    lines += [f"index of {path}: {reason}" for path, reason in indexes]
    if len(lines) > _SHOWN_MAX:
        lines = [*lines[:_SHOWN_MAX], f"{len(lines) - _SHOWN_MAX} more"]
    return "; ".join([f"{'damaged' if damaged else 'ok'}: {', '.join(parts)}", *lines])


def _drop_quarantined(arguments: Arguments, services: Services, session: Session) -> int:
    """`drop_quarantined(name, file_id)`: take a damaged data file out of a table; return the rows that it held."""
    table = services.catalog.stored_in(_table(arguments[0], services, session))
    file_id = arguments[1]
    if not isinstance(file_id, str):
        raise InvalidArguments(f"expected the id of a data file as a string, not {file_id!r}")
    for region in table.region_ids:
        if any(facts.file_id == file_id for facts in services.regions.files(region)):
            return services.regions.give_up_file(region, file_id).result()
    raise AdminTargetMissing(f"Data file not found: {file_id}")


@dataclass(frozen=True, slots=True)
class _Compaction:
    """How regions are to be compacted."""

    strict: StrictWindows | None
    """The windows that files are to be cut at; None for a regular compaction."""
    parallelism: int


_REGULAR = frozenset({"regular", "twcs"})
_BY_WINDOW = frozenset({"strict_window", "swcs"})


def _read_compaction(kind: Any, options: Any, session: Session) -> _Compaction:
    if not isinstance(kind, str) or kind.lower() not in _REGULAR | _BY_WINDOW:
        known = ", ".join(sorted(_REGULAR | _BY_WINDOW))
        raise InvalidArguments(f"there is no compaction of the kind {kind!r}", hint=f"there are {known}")
    if not isinstance(options, str):
        raise InvalidArguments(f"expected the options of a compaction as a string, not {options!r}")
    is_strict = kind.lower() in _BY_WINDOW
    if is_strict and options.strip().isdecimal():
        options = f"window={options}"
    known_keys = ("parallelism", "window", "start_time", "end_time") if is_strict else ("parallelism",)
    given: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in options.split(","))):
        key, _, value = (each.strip() for each in part.partition("="))
        if key not in known_keys:
            wanted = ", ".join(known_keys)
            raise InvalidArguments(f"a compaction of the kind {kind!r} has no option {part!r}", hint=f"it has {wanted}")
        given[key] = value
    parallelism = _read_parallelism(given.get("parallelism", "1"))
    if not is_strict:
        return _Compaction(None, parallelism)
    start, end = (_read_time(key, given.get(key), session) for key in ("start_time", "end_time"))
    if start is not None and end is not None and start >= end:
        raise InvalidArguments("the start_time of a compaction must be before its end_time")
    return _Compaction(StrictWindows(_read_window(given.get("window")), start, end), parallelism)


def _read_parallelism(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InvalidArguments(f"parallelism: expected a positive number, received {value!r}")
    return int(value)


def _read_window(value: str | None) -> Duration | None:
    """Read a number of seconds, or a duration."""
    if value is None:
        return None
    try:
        window = Duration.parse(f"{value}s" if value.isdecimal() else value)
    except ValueError as error:
        raise InvalidArguments(f"window: {error}") from error
    if window < Duration.of_seconds(1):
        raise InvalidArguments(f"window: expected at least a second, received {value!r}")
    return window


def _read_time(key: str, value: str | None, session: Session) -> int | None:
    """Read a timestamp in nanoseconds."""
    if value is None:
        return None
    try:
        return parse_timestamp(value, session.time_zone)
    except TsdbError as error:
        raise InvalidArguments(f"{key}: {error.message}", hint=error.hint) from error


def _discard_unflushed(arguments: Arguments, services: Services, session: Session) -> int:
    argument = arguments[0]
    if isinstance(argument, int) or (isinstance(argument, str) and argument.isdigit()):
        regions: tuple[RegionId, ...] = (_region(argument, services),)
    else:
        regions = _table(argument, services, session).region_ids
    for done in [services.regions.discard_unflushed(region) for region in regions]:
        done.result()
    return 0


def _migrate_region(arguments: Arguments, services: Services, session: Session) -> str:
    """`migrate_region(region, from_node, to_node[, timeout])`, the timeout in seconds or as a duration."""
    from_node, to_node = (_number(each) for each in arguments[1:3])
    wait = _read_window(str(arguments[3])) if len(arguments) == 4 else None
    return migrate_region(services.cluster, _region(arguments[0], services), from_node, to_node, wait)


def _procedure_state(arguments: Arguments, services: Services, session: Session) -> str:
    return procedure_state(services.cluster, arguments[0])


def _balance_regions(arguments: Arguments, services: Services, session: Session) -> int:
    return balance_regions(services.cluster)


def _retry_procedures(arguments: Arguments, services: Services, session: Session) -> int:
    return retry_procedures(services.cluster)


def _skip_log_object(arguments: Arguments, services: Services, session: Session) -> str:
    """`skip_log_object(path)`: give up an object of the shared log that is damaged; return what is wrong with it."""
    if not isinstance(arguments[0], str):
        raise InvalidArguments(f"expected the path of an object of the shared log as a string, not {arguments[0]!r}")
    return services.regions.skip_log_object(arguments[0])


def _number(argument: Any) -> int:
    if isinstance(argument, str) and argument.isdigit():
        return int(argument)
    if not isinstance(argument, int) or isinstance(argument, bool) or argument < 0:
        raise InvalidArguments(f"expected the id of a node as a number, not {argument!r}")
    return argument


_FUNCTIONS: dict[str, tuple[Callable[[Arguments, Services, Session], int | str], int, int]] = {
    "balance_regions": (_balance_regions, 0, 0),
    "flush_table": (_flush_table, 1, 1),
    "flush_region": (_flush_region, 1, 1),
    "compact_table": (_compact_table, 1, 3),
    "compact_region": (_compact_region, 1, 3),
    "discard_unflushed": (_discard_unflushed, 1, 1),
    "drop_quarantined": (_drop_quarantined, 2, 2),
    "migrate_region": (_migrate_region, 3, 4),
    "procedure_state": (_procedure_state, 1, 1),
    "retry_procedures": (_retry_procedures, 0, 0),
    SKIP_LOG_OBJECT: (_skip_log_object, 1, 1),
    "verify_quarantined": (_verify_quarantined, 1, 1),
    "verify_region": (_verify_region, 1, 1),
    "verify_table": (_verify_table, 1, 1),
}
"""Each with how many arguments it takes, at least and at most."""
