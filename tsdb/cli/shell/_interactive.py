"""The shell in a terminal: a prompt with history, completion and colours.

Ctrl-C cancels the statement that runs, or clears the line; twice on an empty line it leaves, as Ctrl-D does.
"""

from __future__ import annotations

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import DynamicLexer, PygmentsLexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import style_from_pygments_cls
from pygments.lexers.promql import PromQLLexer
from pygments.lexers.sql import SqlLexer
from pygments.styles import get_style_by_name

from tsdb.cli.server import CannotConnect
from tsdb.cli.shell._completion import ShellCompleter
from tsdb.cli.shell._history import open_history
from tsdb.cli.shell._meta import LeaveShell
from tsdb.cli.shell._names import ServerNames
from tsdb.cli.shell._script import run_entry
from tsdb.cli.shell._shell import Shell
from tsdb.cli.shell._statements import Entered, Language, is_complete, take_entry
from tsdb.errors import InvalidSyntax, TsdbError


def run_interactive(shell: Shell) -> int:
    """Read and run until the user leaves; return the exit code."""
    _greet(shell)
    names = ServerNames(shell.address)
    session = _make_session(shell, names)
    interrupts = 0
    while True:
        try:
            text = session.prompt()
        except EOFError:
            return 0
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > 1:
                return 0
            shell.note("Ctrl-C again or Ctrl-D leaves")
            continue
        interrupts = 0
        try:
            _run_all(shell, text)
        except LeaveShell:
            return 0
        names.forget()


def _greet(shell: Shell) -> None:
    """Say where the shell is connected; a server that cannot be reached ends it at once."""
    version = shell.query("SELECT version()").read_all().column(0)[0].as_py()
    shell.note(f"{shell.address.url}, version {version}, database {shell.settings.database}")
    shell.note("\\? lists the commands, \\q leaves; a statement ends with ;")


def _run_all(shell: Shell, text: str) -> None:
    """Run what was entered, up to the first error or Ctrl-C."""
    rest = text + "\n"
    while (found := _take(shell, rest)) is not None:
        entered, rest = found
        try:
            run_entry(shell, entered)
        except KeyboardInterrupt:
            shell.sink.flush()
            shell.note("cancelled")
            return
        except CannotConnect as error:
            # The server may come back: the shell stays, with its settings.
            shell.tell_error(error)
            return
        except TsdbError as error:
            shell.tell_error(error)
            return


def _take(shell: Shell, text: str) -> tuple[Entered, str] | None:
    try:
        return take_entry(text, shell.settings.language, is_whole=True)
    except InvalidSyntax as error:
        shell.tell_error(error)
        return None


def _make_session(shell: Shell, names: ServerNames) -> PromptSession[str]:
    settings = shell.settings
    lexers = {Language.SQL: PygmentsLexer(SqlLexer), Language.PROMQL: PygmentsLexer(PromQLLexer)}
    session: PromptSession[str] = PromptSession(
        message=lambda: _prompt(shell),
        prompt_continuation=lambda width, _line, _wraps: "." * (width - 1) + " ",
        multiline=True,
        history=open_history(),
        completer=ShellCompleter(settings, names),
        complete_while_typing=False,
        complete_in_thread=True,
        lexer=DynamicLexer(lambda: lexers[settings.language]),
        style=style_from_pygments_cls(get_style_by_name("default")),
        include_default_pygments_style=False,
        color_depth=None if shell.has_colors else ColorDepth.MONOCHROME,
        key_bindings=_bindings(shell),
        enable_open_in_editor=True,
    )
    return session


def _prompt(shell: Shell) -> AnyFormattedText:
    mark = "promql" if shell.settings.language is Language.PROMQL else "tsdb"
    return f"{mark}:{shell.settings.database}> "


def _bindings(shell: Shell) -> KeyBindings:
    bindings = KeyBindings()

    @Condition
    def ends_here() -> bool:
        from prompt_toolkit.application.current import get_app

        document = get_app().current_buffer.document
        is_at_end = not document.text_after_cursor.strip()
        return is_at_end and is_complete(document.text, shell.settings.language)

    @bindings.add("enter", filter=ends_here)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings
