"""SIGTERM ends a transfer as Ctrl-C does: with its state saved."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


def interrupt_on_sigterm() -> None:
    """Let SIGTERM raise KeyboardInterrupt from now on."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
