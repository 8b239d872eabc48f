"""ADMIN functions of backups: make one, watch it, stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from tsdb.backup import AnyBackups, AnyJob
from tsdb.database._processes import Process
from tsdb.errors import Cancelled, InvalidArguments, Unsupported

_LOOK_SECONDS = 0.2
_SKIP_DAMAGED = "skip_damaged"
_BOOLEANS = {"true": True, "false": False}


def _backup(service: AnyBackups, arguments: Sequence[Any], process: Process) -> str:
    """`backup(destination[, name[, options]])`: return when it is complete. It ends with its statement."""
    # What follows waits for other threads: another query may have the slot of this one.
    process.token.enter()
    job = _start(service, arguments)
    while not job.wait(_LOOK_SECONDS):
        try:
            process.check()
        except Cancelled:
            job.cancel()
            raise
    if job.error is not None:
        raise job.error
    return _describe(job)


def _start_backup(service: AnyBackups, arguments: Sequence[Any], process: Process) -> str:
    """`start_backup(destination[, name[, options]])`: return the id of a backup that goes on."""
    return _start(service, arguments).id


def _backup_state(service: AnyBackups, arguments: Sequence[Any], process: Process) -> str:
    return _describe(service.find(_texts(arguments, least=1, most=1)[0]))


def _cancel_backup(service: AnyBackups, arguments: Sequence[Any], process: Process) -> str:
    job = service.find(_texts(arguments, least=1, most=1)[0])
    job.cancel()
    return _describe(job)


def _start(service: AnyBackups, arguments: Sequence[Any]) -> AnyJob:
    where, name, options = (*_texts(arguments, least=1, most=3), "", "")[:3]
    return service.start(where, name or None, skips_damaged=_parse_options(options))


def _describe(job: AnyJob) -> str:
    return orjson.dumps(job.describe()).decode()


def check_count(arguments: Sequence[Any], least: int, most: int) -> None:
    """Refuse a call of an ADMIN function with too few or too many arguments."""
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise InvalidArguments(f"Expected {wanted} args, but actual {len(arguments)}")


def _texts(arguments: Sequence[Any], *, least: int, most: int) -> tuple[str, ...]:
    check_count(arguments, least, most)
    for argument in arguments:
        if not isinstance(argument, str):
            raise InvalidArguments(f"expected a string, not {argument!r}")
    return tuple(arguments)


def _parse_options(text: str) -> bool:
    """Return whether damaged files and regions are left out."""
    skips_damaged = False
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, _, value = (each.strip() for each in part.partition("="))
        if key != _SKIP_DAMAGED or value.lower() not in _BOOLEANS:
            raise InvalidArguments(f"a backup has no option {part!r}", hint=f"it has {_SKIP_DAMAGED}=true")
        skips_damaged = _BOOLEANS[value.lower()]
    return skips_damaged


BACKUP_FUNCTIONS: dict[str, Callable[[AnyBackups, Sequence[Any], Process], str]] = {
    "backup": _backup,
    "backup_state": _backup_state,
    "cancel_backup": _cancel_backup,
    "start_backup": _start_backup,
}

RESTORE_TABLE = "restore_table"
SKIP_LOG_OBJECT = "skip_log_object"
ADMINISTRATORS_ONLY = frozenset({*BACKUP_FUNCTIONS, RESTORE_TABLE, SKIP_LOG_OBJECT})
"""They concern the whole server, or read what others own."""


def run_backup_function(service: AnyBackups | None, name: str, arguments: Sequence[Any], process: Process) -> str:
    """Call one of the functions; Unsupported where this server has no backups."""
    if service is None:
        raise Unsupported(
            "this database cannot be backed up: it is in memory or read-only",
            hint="a standalone server and a cluster do; COPY DATABASE writes the rows of one database",
        )
    return BACKUP_FUNCTIONS[name](service, arguments, process)
