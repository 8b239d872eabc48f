"""What a query of a Python program may name beside its tables: variables of the caller that hold frames, and files.

    frame = pandas.DataFrame(…)
    db.sql("SELECT * FROM frame")
    db.sql("SELECT * FROM 'cpu.parquet'")
    db.sql("SELECT * FROM read_csv('cpu-*.csv')")

A table of the database, a view or a registered frame of the name wins over a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from glob import glob, has_magic
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from tsdb.embedded._frames import is_frame, to_arrow
from tsdb.errors import InvalidArguments
from tsdb.sql import Dialect
from tsdb.sql.lexer import Token, TokenKind, tokenize, unquote
from tsdb.sql.rewrite import Edits, TokenLayout, find_tables

FILES_MAX = 10_000
"""How many files a pattern may match."""

Paths = str | Path | list[str | Path] | tuple[str | Path, ...]
IsKnown = Callable[[str], bool]


def read_files(paths: Paths, kind: str) -> pa.Table:
    """Read files of a kind, `parquet`, `csv` or `json` (one object per line), into one table."""
    read = _READERS[kind]
    tables = [_read(read, path) for path in _files(paths)]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidArguments(f"the files have columns of different types: {error}") from error


def _files(paths: Paths) -> list[Path]:
    found: list[Path] = []
    for each in paths if isinstance(paths, list | tuple) else [paths]:
        path = Path(each).expanduser()
        matched = sorted(glob(str(path), recursive=True)) if has_magic(str(path)) else [str(path)]
        if not matched:
            raise InvalidArguments(f"no file matches {each}")
        found += map(Path, matched)
    if not found:
        raise InvalidArguments("no file was given")
    if len(found) > FILES_MAX:
        raise InvalidArguments(f"{len(found)} files were given, at most {FILES_MAX} are read at a time")
    return found


def _read(read: Callable[[Path], pa.Table], path: Path) -> pa.Table:
    try:
        return read(path).replace_schema_metadata(None)
    except FileNotFoundError as error:
        raise InvalidArguments(f"there is no file {path}") from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidArguments(f"cannot read {path}: {error}") from error


_READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "parquet": pyarrow.parquet.read_table,
    "csv": pyarrow.csv.read_csv,
    "json": pyarrow.json.read_json,
}
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}


# What a text has that reads a file; most do not, and need not be looked at any closer.
_FILE = re.compile(r"\b(?:from|join)\s+(?:'|read_)", re.IGNORECASE)


def with_files(text: str) -> tuple[str, dict[str, pa.Table]]:
    """Replace the files that a query reads by names of tables; return the text and the tables."""
    if _FILE.search(text) is None:
        return text, {}
    tokens = tokenize(text, Dialect.GENERIC)
    edits, tables = Edits(text), dict[str, pa.Table]()
    for at in _after_from(tokens):
        found = _file_at(tokens, at)
        if found is not None:
            kind, path, end = found
            name = f"__tsdb_file_{len(tables)}"
            tables[name] = read_files(path, kind)
            edits.replace(tokens[at].start, end, name)
    return (edits.render(), tables) if tables else (text, {})


def _after_from(tokens: list[Token]) -> Iterator[int]:
    """Where a query names a table. The files of COPY are those of the database."""
    first = 0
    for at, token in enumerate(tokens[:-1]):
        if token.text == ";":
            first = at + 1
        elif token.word in ("FROM", "JOIN") and tokens[first].word != "COPY":
            yield at + 1


def _file_at(tokens: list[Token], at: int) -> tuple[str, str, int] | None:
    """The kind and path of the file that is read from a token on, and where the text of it ends."""
    token = tokens[at]
    if token.kind == TokenKind.STRING:
        path = unquote(token, Dialect.GENERIC)
        kind = next((kind for suffix, kind in _SUFFIXES.items() if path.lower().endswith(suffix)), None)
        return None if kind is None else (kind, path, token.end)
    kind = token.text.lower().removeprefix("read_")
    if not token.text.lower().startswith("read_") or kind not in _READERS or len(tokens) < at + 4:
        return None
    if tokens[at + 1].text != "(" or tokens[at + 2].kind != TokenKind.STRING or tokens[at + 3].text != ")":
        return None
    return kind, unquote(tokens[at + 2], Dialect.GENERIC), tokens[at + 3].end


def caller_frames(text: str, caller: FrameType, is_known: IsKnown) -> dict[str, pa.Table]:
    """Return the variables of a caller that a query names as tables."""
    frames = {name: value for name, value in _variables(caller) if name in text and is_frame(value)}
    if not frames:
        return {}
    return {name: to_arrow(frames[name]) for name in _bare_names(text) if name in frames and not is_known(name)}


def _bare_names(text: str) -> list[str]:
    layout = TokenLayout(text, tokenize(text, Dialect.GENERIC))
    return [each.name for each in find_tables(layout, Dialect.GENERIC) if len(each.parts) == 1]


def _variables(caller: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables that the caller sees, local ones last: they hide global ones of the same name."""
    yield from list(caller.f_globals.items())
    yield from list(caller.f_locals.items())
