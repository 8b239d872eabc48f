"""Queries that MySQL clients send by themselves, when they connect or list what the server has.

They are about things that only MySQL has: triggers, plugins, replication. The answer is nearly always an empty table
with the columns that the client expects. Queries that mean something here go to the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from tsdb.query import Affected, Output, Session, TableRecords

_HEAD = r"\s*(?:/\*(?!!).*?\*/\s*)*"
"""Blanks and comments, by which tools say who they are."""
_TAIL = r"\s*;?\s*"


def answer_startup(text: str, session: Session) -> Output | None:
    """Return the answer to a query about MySQL itself, None for any other text."""
    if len(text) > _CHARS_MAX:
        return None
    head = _FIRST_WORD.match(text)
    if head is None:
        return None
    for pattern, make in _ANSWERS[head[1].lower()]:
        if pattern.fullmatch(text, head.start(1)):
            return make(session)
    return None


def without_dual(text: str) -> str:
    """Return a query without `FROM DUAL`, which stands for no table at all."""
    match = _DUAL.fullmatch(text)
    return text if match is None else match[1]


_CHARS_MAX = 1024
_FIRST_WORD = re.compile(_HEAD + r"(show|select|do|flush)\b", re.IGNORECASE | re.DOTALL)
_DUAL = re.compile(r"(\s*select\b[^'\"`;#]*?)\s+from\s+dual" + _TAIL, re.IGNORECASE)

_Maker = Callable[[Session], Output]


def _empty(*names: str) -> _Maker:
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    return lambda _: TableRecords(schema.empty_table())


def _one(name: str, value: Callable[[Session], int | str]) -> _Maker:
    def make(session: Session) -> Output:
        found = value(session)
        kind = pa.int64() if isinstance(found, int) else pa.string()
        return TableRecords(pa.table({name: pa.array([found], kind)}))

    return make


def _nothing(session: Session) -> Output:
    return Affected(0)


def _rule(pattern: str, make: _Maker) -> tuple[re.Pattern[str], _Maker]:
    return re.compile(pattern + _TAIL, re.IGNORECASE | re.DOTALL), make


_FILTER = r"(?:\s+(?:from|in)\s+\S+)?(?:\s+(?:like|where)\s.*)?"
_ROUTINE = (
    "Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_TRIGGER = (
    "Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer", "character_set_client",
    "collation_connection", "Database Collation",
)  # fmt: skip
_EVENT = (
    "Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Interval value", "Interval field", "Starts", "Ends",
    "Status", "Originator", "character_set_client", "collation_connection", "Database Collation",
)  # fmt: skip
_BINLOG = ("File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set")

_ANSWERS: dict[str, list[tuple[re.Pattern[str], _Maker]]] = {
    "show": [
        _rule(r"show\s+plugins", _empty("Name", "Status", "Type", "Library", "License")),
        _rule(r"show\s+(?:full\s+)?triggers" + _FILTER, _empty(*_TRIGGER)),
        _rule(r"show\s+events" + _FILTER, _empty(*_EVENT)),
        _rule(r"show\s+(?:procedure|function)\s+status" + _FILTER, _empty(*_ROUTINE)),
        _rule(r"show\s+(?:master|binary\s+log)\s+status", _empty(*_BINLOG)),
        _rule(r"show\s+(?:slave|replica)\s+status", _empty("Replica_IO_State")),
        _rule(r"show\s+(?:master|binary)\s+logs", _empty("Log_name", "File_size", "Encrypted")),
        _rule(r"show\s+privileges", _empty("Privilege", "Context", "Comment")),
        _rule(r"show\s+open\s+tables" + _FILTER, _empty("Database", "Table", "In_use", "Name_locked")),
        _rule(r"show\s+errors(?:\s+limit\s.*)?", _empty("Level", "Code", "Message")),
        _rule(r"show\s+profiles", _empty("Query_ID", "Duration", "Query")),
        _rule(
            r"show\s+count\(\s*\*\s*\)\s+warnings",
            _one("@@session.warning_count", lambda session: len(session.warnings)),
        ),
        _rule(r"show\s+count\(\s*\*\s*\)\s+errors", _one("@@session.error_count", lambda _: 0)),
    ],
    "select": [
        _rule(
            r"select\s+timediff\(\s*now\(\s*\)\s*,\s*utc_timestamp\(\s*\)\s*\)",
            _one("TIMEDIFF(NOW(), UTC_TIMESTAMP())", lambda _: "00:00:00"),
        ),
        _rule(r"select\s+@@(?:session\.)?warning_count", _one("@@warning_count", lambda each: len(each.warnings))),
    ],
    "do": [_rule(r"do\s+[\d\s,()]+", _nothing)],
    "flush": [_rule(r"flush\s+(?:tables|privileges|status|hosts|logs)", _nothing)],
}
