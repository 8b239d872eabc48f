"""The meta commands: a backslash, a name, and words up to the end of the line."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tsdb.cli.server import ResultRows
from tsdb.cli.shell._shell import Shell
from tsdb.cli.shell._statements import Language
from tsdb.cli.shown import FORMAT_NAMES, draw_plot
from tsdb.errors import InvalidArguments
from tsdb.nearest import nearest
from tsdb.promql import parse_duration_ms

WATCH_SECONDS = 2.0
PLOT_SECONDS = 3600.0
"""How far back PromQL is drawn unless `\\range` says otherwise."""
_PLOT_LINES = 16
_PLOT_ROWS_MAX = 500_000


class InvalidMetaCommand(InvalidArguments):
    """A meta command does not exist or does not take these words."""


class LeaveShell(Exception):
    """The user wants to leave."""


@dataclass(frozen=True)
class MetaCommand:
    """What a command does, how it is written, and what it means."""

    run: Callable[[Shell, list[str]], None]
    usage: str
    meaning: str
    words_max: int = 1


def run_meta(shell: Shell, line: str) -> None:
    """Run a meta command; LeaveShell if it was the last one."""
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name.rstrip(";"))
    if command is None:
        near = nearest(name, list(COMMANDS))
        hint = f"did you mean \\{near}?" if near else "\\? lists the commands"
        raise InvalidMetaCommand(f"there is no command \\{name}", hint=hint)
    words = [rest.strip()] if command.words_max < 0 and rest.strip() else _words(rest)
    if 0 <= command.words_max < len(words):
        raise InvalidMetaCommand(f"\\{name} takes fewer arguments", hint=f"usage: {command.usage}")
    command.run(shell, words)


def _words(text: str) -> list[str]:
    try:
        found = shlex.split(text.strip().rstrip(";"), comments=False)
    except ValueError as error:
        raise InvalidMetaCommand(f"the arguments of the command cannot be parsed: {error}") from error
    return found


def _quoted(name: str) -> str:
    return ".".join('"' + part.strip('"').replace('"', '""') + '"' for part in name.split("."))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _describe(shell: Shell, words: list[str]) -> None:
    if words:
        shell.show_query(f"DESC TABLE {_quoted(words[0])}")
    else:
        _list_tables(shell, words)


def _list_tables(shell: Shell, words: list[str]) -> None:
    like = f" AND table_name LIKE {_literal(words[0])}" if words else ""
    shell.show_query(
        "SELECT table_name AS name, table_type AS type, engine FROM information_schema.tables"
        f" WHERE table_schema = {_literal(shell.settings.database)}{like} ORDER BY table_name"
    )


def _list_databases(shell: Shell, _words: list[str]) -> None:
    shell.show_query("SHOW DATABASES")


def _change_database(shell: Shell, words: list[str]) -> None:
    if words:
        shell.change_database(words[0])
    shell.note(f"the database is {shell.settings.database}, on {shell.address.url}")


def _timing(shell: Shell, words: list[str]) -> None:
    shell.settings.has_timing = _switch(words, shell.settings.has_timing)
    shell.note(f"timing is {'on' if shell.settings.has_timing else 'off'}")


def _expand(shell: Shell, words: list[str]) -> None:
    is_on = _switch(words, shell.settings.format == "vertical")
    _format(shell, ["vertical" if is_on else "table"])


def _switch(words: list[str], now: bool) -> bool:
    if not words:
        return not now
    if words[0] not in ("on", "off"):
        raise InvalidMetaCommand(f"expected on or off, received {words[0]!r}")
    return words[0] == "on"


def _format(shell: Shell, words: list[str]) -> None:
    if words:
        if words[0] not in FORMAT_NAMES:
            raise InvalidMetaCommand(f"the format is one of {', '.join(FORMAT_NAMES)}; received {words[0]!r}")
        shell.settings.format = words[0]
    shell.note(f"the format is {shell.settings.format}")


def _output(shell: Shell, words: list[str]) -> None:
    if not words:
        shell.open_file(None)
        return
    try:
        shell.open_file(Path(words[0]).expanduser().open("wb"))
    except OSError as error:
        raise InvalidMetaCommand(f"{words[0]} cannot be written: {error.strerror}") from error


def _include(shell: Shell, words: list[str]) -> None:
    from tsdb.cli.shell._script import run_script

    if not words:
        raise InvalidMetaCommand("\\i needs a file")
    with _opened(words[0]) as file:
        run_script(shell, file, name=words[0])


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    try:
        file = Path(name).expanduser().open("rb")
    except OSError as error:
        raise InvalidMetaCommand(f"{name} cannot be read: {error.strerror}") from error
    with file:
        yield file


def _watch(shell: Shell, words: list[str]) -> None:
    seconds = _number(words[0], "seconds") if words else WATCH_SECONDS
    times = _number(words[1], "times") if len(words) > 1 else float("inf")
    text = _last(shell)
    done = 0
    while True:
        shell.sink.write(f"{time.strftime('%H:%M:%S')}  every {seconds:g} s: {' '.join(text.split())[:60]}\n")
        shell.run(text)
        done += 1
        if done >= times:
            return
        time.sleep(seconds)


def _number(text: str, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not 0 < found < 1e6:
        raise InvalidMetaCommand(f"expected a number of {what} above 0, received {text!r}")
    return found


def _last(shell: Shell) -> str:
    if shell.last is None:
        raise InvalidMetaCommand("no statement was run yet")
    return shell.last


def _plot(shell: Shell, words: list[str]) -> None:
    text = words[0].rstrip().rstrip(";") if words else _last(shell)
    shell.last = text
    settings = shell.settings
    if settings.language is Language.SQL:
        asked = shell.ask(text)
    else:
        asked = shell.ask_range(text, settings.range_seconds or PLOT_SECONDS, settings.step_seconds)
    with asked as result:
        if not isinstance(result, ResultRows):
            raise InvalidMetaCommand("the statement has no rows to draw")
        rows = _first_rows(result)
    width = shutil.get_terminal_size((80, 24)).columns
    height = min(_PLOT_LINES, max(6, shutil.get_terminal_size((80, 24)).lines - 6))
    drawn = draw_plot(rows, width=width, height=height, zone=shell.zone, has_colors=shell.has_colors)
    shell.sink.write(drawn)
    shell.sink.flush()


def _first_rows(result: ResultRows) -> pa.Table:
    """Read a bounded number of rows; leaving the rest cancels the query."""
    batches, rows = [], 0
    for batch in result:
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _PLOT_ROWS_MAX:
            break
    return pa.Table.from_batches(batches, result.schema)


def _promql(shell: Shell, words: list[str]) -> None:
    if words:
        if words[0] not in ("on", "off"):
            raise InvalidMetaCommand(f"expected on or off, received {words[0]!r}")
        shell.settings.language = Language.PROMQL if words[0] == "on" else Language.SQL
    else:
        is_sql = shell.settings.language is Language.SQL
        shell.settings.language = Language.PROMQL if is_sql else Language.SQL
    shell.note(f"the language is {'PromQL' if shell.settings.language is Language.PROMQL else 'SQL'}")


def _sql(shell: Shell, _words: list[str]) -> None:
    _promql(shell, ["off"])


def _range(shell: Shell, words: list[str]) -> None:
    if not words or words[0] == "off":
        shell.settings.range_seconds = shell.settings.step_seconds = None
        shell.note("PromQL is evaluated now")
        return
    shell.settings.range_seconds = _duration(words[0])
    shell.settings.step_seconds = _duration(words[1]) if len(words) > 1 else None
    shell.note(f"PromQL is evaluated over the last {words[0]}")


def _duration(text: str) -> float:
    found = parse_duration_ms(text)
    if found is None or found <= 0:
        raise InvalidMetaCommand(f"expected a duration such as 1h or 30s, received {text!r}")
    return found / 1000


def _help(shell: Shell, _words: list[str]) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  {command.usage:<{width}}  {command.meaning}\n" for command in COMMANDS.values()]
    shell.sink.write(
        "A SQL statement ends with ;   A PromQL expression ends with its line.\n"
        f"{''.join(lines)}"
        "  Ctrl-C cancels what runs, Ctrl-D leaves.\n"
    )
    shell.sink.flush()


def _quit(_shell: Shell, _words: list[str]) -> None:
    raise LeaveShell


COMMANDS = {
    "?": MetaCommand(_help, "\\?", "this list", 0),
    "q": MetaCommand(_quit, "\\q", "leave", 0),
    "d": MetaCommand(_describe, "\\d [TABLE]", "the columns of a table, or all tables"),
    "dt": MetaCommand(_list_tables, "\\dt [PATTERN]", "tables and views of the database; PATTERN as of LIKE"),
    "l": MetaCommand(_list_databases, "\\l", "databases", 0),
    "c": MetaCommand(_change_database, "\\c [DATABASE]", "use another database, or show which one is used"),
    "timing": MetaCommand(_timing, "\\timing [on|off]", "show how long statements take"),
    "x": MetaCommand(_expand, "\\x [on|off]", "print a block for each row instead of a table"),
    "format": MetaCommand(_format, f"\\format [{'|'.join(FORMAT_NAMES)}]", "the format of results"),
    "o": MetaCommand(_output, "\\o [FILE]", "print results to a file, or to the terminal again"),
    "i": MetaCommand(_include, "\\i FILE", "run the statements of a file"),
    "watch": MetaCommand(_watch, "\\watch [SECONDS [TIMES]]", "repeat the last statement", 2),
    "plot": MetaCommand(_plot, "\\plot [QUERY]", "draw the query, or the last one, as a chart over time", -1),
    "promql": MetaCommand(_promql, "\\promql [on|off]", "switch between SQL and PromQL"),
    "sql": MetaCommand(_sql, "\\sql", "switch to SQL", 0),
    "range": MetaCommand(_range, "\\range [DURATION [STEP]|off]", "evaluate PromQL over the last DURATION", 2),
}


def is_color_wanted(is_terminal: bool) -> bool:
    """Whether output may have colours: never with NO_COLOR, else only in a terminal."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
