"""One run of `tsdb cli`: texts of `-e`, a script on the standard input, or a terminal; and its exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tsdb.cli.server import ServerAddress
from tsdb.cli.shell._meta import LeaveShell, is_color_wanted
from tsdb.cli.shell._script import run_script, run_text
from tsdb.cli.shell._shell import Shell, ShellSettings, exit_code_of
from tsdb.cli.shell._statements import Language
from tsdb.errors import TsdbError

_INTERRUPTED = 128 + signal.SIGINT
_BROKEN_PIPE = 128 + signal.SIGPIPE


@dataclass(frozen=True)
class ShellOptions:
    """What the command line says."""

    texts: Sequence[str]
    database: str
    time_zone: str | None
    format: str
    is_promql: bool
    has_timing: bool
    keeps_going: bool


def run_shell(address: ServerAddress, options: ShellOptions) -> int:
    """Run what there is to run and return the exit code."""
    is_terminal = sys.stdout.isatty()
    settings = ShellSettings(
        options.database,
        language=Language.PROMQL if options.is_promql else Language.SQL,
        format=options.format,
        has_timing=options.has_timing,
    )
    shell = Shell(
        address, settings, sys.stdout.buffer, is_terminal=is_terminal, has_colors=is_color_wanted(is_terminal)
    )
    shell.has_error_colors = is_color_wanted(sys.stderr.isatty())
    try:
        if options.time_zone is not None:
            shell.change_zone(options.time_zone)
        return _run(shell, options)
    except TsdbError as error:
        shell.tell_error(error)
        return exit_code_of(error)
    except LeaveShell:
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more. What is still buffered must not be flushed into the broken pipe at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    finally:
        shell.open_file(None)


def _run(shell: Shell, options: ShellOptions) -> int:
    if options.texts:
        runs = [partial(run_text, shell, text, keeps_going=options.keeps_going) for text in options.texts]
    elif sys.stdin.isatty() and shell.is_terminal:
        from tsdb.cli.shell._interactive import run_interactive

        return run_interactive(shell)
    else:
        runs = [partial(run_script, shell, sys.stdin.buffer, name="stdin", keeps_going=options.keeps_going)]
    failed = [error for error in (run() for run in runs) if error is not None]
    return exit_code_of(failed[-1]) if failed else 0
