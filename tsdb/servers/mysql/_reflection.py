"""Schema reflection of tools: SHOW CREATE TABLE as MySQL prints it, and queries that rely on MySQL's behaviour.

Libraries find the columns of a table by parsing what MySQL prints. They are recognised by quotes around every name;
statements without them are answered as everywhere else. Types have the names that MySQL prints, the primary key is the
tags and the time index, as in information_schema for clients of this protocol, and options, which MySQL does not have,
are left out.

Queries of information_schema write numbers in capitals (`UPPER(CASE … THEN 10 … END)`), which is text in MySQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from tsdb.query import Affected, Output, TableRecords, read_all

_ASKED_BY_TOOL = re.compile(r"\s*SHOW CREATE TABLE (?:`(?:[^`]|``)+`\.)?`(?:[^`]|``)+`\s*;?\s*", re.IGNORECASE)
_DESCRIBED = re.compile(r"\s*DESC(?:RIBE)? ((?:`(?:[^`]|``)+`\.)?`(?:[^`]|``)+`)\s*;?\s*", re.IGNORECASE)
_COLUMN = re.compile(
    r"  (?P<name>`(?:[^`]|``)+`) (?P<type>[A-Z][A-Z0-9]*(?: UNSIGNED)?)(?:\((?P<width>[\d, ]+)\))?"
    r"(?P<rest> (?:NOT )?NULL.*?)(?: (?:FULLTEXT|SKIPPING|INVERTED|VECTOR) INDEX.*?)?,?"
)
_KEY = re.compile(r"  PRIMARY KEY \((?P<names>.*)\),?")
_TIME = re.compile(r"  TIME INDEX \((?P<name>.*)\),?")
_KEEPS_EVERY_ROW = re.compile(r"^  append_mode = 'true',?$", re.MULTILINE | re.IGNORECASE)
_TYPES = {"STRING": "text", "BOOLEAN": "tinyint(1)", "VARBINARY": "blob", "VECTOR": "blob"}
_ENGINE = re.compile(r"^ENGINE=(\w+)", re.MULTILINE)
QUERY_CHARS_MAX = 64 << 10
"""No tool sends a longer query for tables."""
_TABLES_ASKED = re.compile(r"\binformation_schema\b", re.IGNORECASE)
_CAPITALS = re.compile(r"\b(UPPER|LOWER|UCASE|LCASE)\s*\(\s*CASE\b", re.IGNORECASE)
_CHARSET = "DEFAULT CHARSET=utf8mb4"


def is_reflection(text: str) -> bool:
    """Whether a statement has the form that only tools use."""
    return _ASKED_BY_TOOL.fullmatch(text) is not None


def as_engine_reads(text: str) -> str:
    """Return the query of a tool in another form: DESCRIBE as SHOW COLUMNS, which has MySQL's own columns.

    In a query of information_schema there is text where MySQL makes it of numbers by itself.
    """
    if len(text) <= QUERY_CHARS_MAX and (described := _DESCRIBED.fullmatch(text)) is not None:
        return f"SHOW COLUMNS FROM {described[1]}"
    is_asked = len(text) <= QUERY_CHARS_MAX and _TABLES_ASKED.search(text)
    return _CAPITALS.sub(r"\1('' || CASE", text) if is_asked else text


def as_mysql_prints(output: Output) -> Output:
    """Return the answer to SHOW CREATE TABLE in MySQL's words."""
    if isinstance(output, Affected):
        return output
    table = read_all(output)
    statements = [mysql_create_table(text) for text in table.column(1).to_pylist()]
    return TableRecords(table.set_column(1, table.schema.names[1], pa.array(statements, pa.string())))


def mysql_create_table(statement: str) -> str:
    """Return a statement that creates a table, as this server prints it, as MySQL would print it; a view's as it is."""
    if not statement.startswith("CREATE TABLE"):
        return statement
    head, _, body = statement.partition("\n")
    engine = _ENGINE.search(body)
    name = head.removesuffix(" (").rpartition("IF NOT EXISTS ")[2]
    tail = f") ENGINE={engine[1] if engine else 'mito'} {_CHARSET}"
    return f"CREATE TABLE {name} (\n" + ",\n".join(_items(body)) + "\n" + tail


def _items(body: str) -> Iterator[str]:
    tags, time = "", ""
    for line in body.split("\n"):
        if line == ")":
            break
        if column := _COLUMN.fullmatch(line):
            yield f"  {column['name']} {_type(column)}{_default(column['rest'])}"
        elif found := _KEY.fullmatch(line):
            tags = found["names"].replace("`, `", "`,`") + ","
        elif found := _TIME.fullmatch(line):
            time = found["name"]
    if time and not _KEEPS_EVERY_ROW.search(body):
        yield f"  PRIMARY KEY ({tags}{time})"


def _type(column: re.Match[str]) -> str:
    kind, width = column["type"], column["width"]
    if kind in _TYPES:
        return _TYPES[kind]
    name = kind.lower()
    if kind == "TIMESTAMP":
        return f"timestamp({min(int(width or 0), 6)})" if int(width or 0) else "timestamp"
    return f"{name}({width.replace(' ', '')})" if width else name


def _default(rest: str) -> str:
    """MySQL prints NULL behind timestamps alone, and literals of defaults in quotes."""
    rest = rest.removeprefix(" NULL") if not rest.startswith(" NOT NULL") else rest
    return re.sub(r" DEFAULT (current_timestamp\(\)|now\(\))", " DEFAULT CURRENT_TIMESTAMP", rest, flags=re.IGNORECASE)
