"""Compactions that run pause while writers wait for memory: the flush that frees it needs the cores and the disk."""

from __future__ import annotations

import time
from collections.abc import Callable

from tsdb.engine.metrics import COMPACTION_PAUSED_SECONDS
from tsdb.engine.region.context import EngineContext

PAUSE_SECONDS_MAX = 10.0
"""For how long one compaction pauses in all: it must come to its end, or there are ever more files."""

_LOOK_SECONDS = 0.02


class Pauses:
    """The pauses of one compaction."""

    def __init__(
        self, context: EngineContext, check: Callable[[], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`check` raises when the compaction is to end."""
        self._context = context
        self._check = check
        self._sleep = sleep
        self._left = PAUSE_SECONDS_MAX

    def pause(self) -> None:
        """Wait as long as writers do, unless this thread is the one that would have to flush."""
        paused = 0.0
        while self._context.buffer.waiting and not self._context.background.has_one_thread and self._left > 0:
            self._check()
            self._sleep(_LOOK_SECONDS)
            paused += _LOOK_SECONDS
            self._left -= _LOOK_SECONDS
        if paused:
            COMPACTION_PAUSED_SECONDS.inc(paused)
