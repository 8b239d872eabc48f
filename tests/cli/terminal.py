"""A program in a terminal of its own, as a person would use it: keys in, what the screen gets out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

SECONDS_MAX = 40.0
ENTER, TAB, CTRL_C, CTRL_D = "\r", "\t", "\x03", "\x04"
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>()][A-Z0-9]?)|\x07")


class Terminal:
    """A process whose standard streams are a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.raw = ""
        self._seen = ""
        self._at = 0

    @property
    def text(self) -> str:
        """Everything so far, without colours and movements of the cursor."""
        return self._seen

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def expect(self, pattern: str, seconds_max: float = SECONDS_MAX) -> re.Match[str]:
        """Wait for a text behind the last one that was expected."""
        deadline = time.monotonic() + seconds_max
        while True:
            found = re.compile(pattern, re.MULTILINE).search(self._seen, self._at)
            if found is not None:
                self._at = found.end()
                return found
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"no {pattern!r} in:\n{self._seen[self._at :]}\nbefore:\n{self._seen[: self._at]}")

    def _read(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self._descriptor, 65536)
        except OSError:  # Linux says so when the process has ended
            return False
        text = more.decode("utf-8", "replace")
        self.raw += text
        self._seen = _ESCAPES.sub("", self._seen + text)
        return bool(more)

    def wait(self, seconds_max: float = SECONDS_MAX) -> int:
        """Read to the end and return the exit code."""
        deadline = time.monotonic() + seconds_max
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))


@contextmanager
def terminal(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, columns: int = 100
) -> Iterator[Terminal]:
    """Start a command in a new terminal and end it with the test."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    # The test runner may say how wide its own terminal is, which programs believe more than the terminal itself.
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        variables.pop(name, None)
    variables.update(environment or {})
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=variables,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        os.close(ours)


def _take_terminal() -> None:
    """Make the terminal the controlling one, so that Ctrl-C is a signal, also if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
