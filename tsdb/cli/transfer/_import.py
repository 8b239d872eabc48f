"""One import: reads pieces, has several written at a time, and keeps the state.

The position of the state only passes a piece when that piece, and all before it, were acknowledged. So an import that
was interrupted, even by a crash, continues without losing a row; rows behind the position are written again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tsdb.cli.server import ServerAddress
from tsdb.cli.transfer._batches import RejectedRow
from tsdb.cli.transfer._progress import ProgressView
from tsdb.cli.transfer._send import BatchOutcome, BatchWriter
from tsdb.cli.transfer._source import ImportSource, Piece
from tsdb.cli.transfer._state import ImportState, StateFile
from tsdb.errors import InvalidArguments, TsdbError

SAVE_SECONDS = 0.5
REJECTED_SHOWN_MAX = 20
"""How many rejected rows are printed one by one."""


class TooManyErrors(InvalidArguments):
    """More rows were rejected than the user allows."""


@dataclass(frozen=True)
class ImportLimits:
    """How an import works."""

    workers: int = 4
    """How many requests are in flight."""
    errors_max: int = 0
    retry_seconds: float = 60.0


@dataclass
class ImportResult:
    """What an import did, earlier runs included."""

    rows: int
    rejected: int


class Importer:
    """Runs one import from a state on."""

    def __init__(
        self,
        address: ServerAddress,
        source: ImportSource,
        state: ImportState,
        file: StateFile | None,
        limits: ImportLimits,
        view: ProgressView,
    ) -> None:
        self._source = source
        self._state = state
        self._file = file
        self._limits = limits
        self._view = view
        self._writer = BatchWriter(address, retry_seconds=limits.retry_seconds)
        self._waiting: deque[tuple[Piece, Future[BatchOutcome]]] = deque()
        self._passing = threading.Lock()
        """Held to change what waits and the state."""
        self._saved_at = 0.0
        self._is_saved = False
        self._shown = 0

    def run(self) -> ImportResult:
        """Import everything; the state is saved whatever ends it, and removed when it is complete."""
        try:
            with ExitStack() as stack:
                pool = ThreadPoolExecutor(self._limits.workers, thread_name_prefix="tsdb-import")
                stack.callback(pool.shutdown, wait=True, cancel_futures=True)
                stack.callback(self._writer.stop)
                self._save()
                stack.enter_context(self._passing_meanwhile())
                self._run_pieces(stack.enter_context(closing(self._pieces())), pool)
        finally:
            with self._passing:  # an interrupt may have ended the wait for the thread that saves meanwhile
                self._save()
        if self._file is not None:
            self._file.remove()
        return ImportResult(self._state.rows, self._state.rejected)

    def _run_pieces(self, pieces: Iterator[Piece], pool: ThreadPoolExecutor) -> None:
        while (piece := self._next(pieces)) is not None:
            with self._passing:
                self._waiting.append((piece, pool.submit(self._write, piece)))
                while len(self._waiting) > self._limits.workers + 1 or self._is_done():
                    self._pass_one()
        self._pass_all()

    @contextmanager
    def _passing_meanwhile(self) -> Iterator[None]:
        """Let pieces pass while the source makes the import wait: it may be killed before the source goes on."""
        is_over = threading.Event()

        def work() -> None:
            while not is_over.wait(SAVE_SECONDS):
                # An error here is one of the import too, as soon as it reads on or ends.
                with self._passing, suppress(TsdbError):
                    while self._is_done() and _is_accepted(self._waiting[0][1]):
                        self._pass_one()
                    if not self._is_saved:
                        self._save()

        thread = threading.Thread(target=work, name="tsdb-import-state", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _next(self, pieces: Iterator[Piece]) -> Piece | None:
        """Read on; if the source cannot be read, what was read before is still waited for."""
        try:
            return next(pieces, None)
        except TsdbError:
            self._pass_all()
            raise

    def _pass_all(self) -> None:
        with self._passing:
            while self._waiting:
                self._pass_one()

    def _pieces(self) -> Generator[Piece, None, None]:
        yield from self._source.pieces(self._state.position)

    def _write(self, piece: Piece) -> BatchOutcome:
        found = BatchOutcome(rejected=list(piece.rejected))
        if self._state.rejected + len(found.rejected) > self._limits.errors_max:
            return found  # the import stops here, so nothing of this piece is written
        for batch in piece.batches:
            allowed = self._limits.errors_max - self._state.rejected - len(found.rejected)
            written = self._writer.write(batch, rejected_max=max(0, allowed))
            found.rows += written.rows
            found.rejected += written.rejected
        return found

    def _is_done(self) -> bool:
        return bool(self._waiting) and self._waiting[0][1].done()

    def _pass_one(self) -> None:
        """Let the oldest piece pass: everything up to its end is acknowledged, or rejected and counted."""
        piece, future = self._waiting[0]
        written = future.result()
        self._tell(written.rejected)
        total = self._state.rejected + len(written.rejected)
        if total > self._limits.errors_max:
            hint = "fix them, or allow some with --max-errors; the import continues where it stopped"
            raise TooManyErrors(f"{total} rows were rejected, {self._limits.errors_max} are allowed", hint=hint)
        self._waiting.popleft()
        self._state.position = piece.position
        self._state.rows += written.rows
        self._state.rejected = total
        self._is_saved = False
        self._view.update(piece.done, self._state.rows)
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._save()

    def _tell(self, rejected: list[RejectedRow]) -> None:
        for row in rejected[: REJECTED_SHOWN_MAX - self._shown]:
            self._view.note(f"{row.place}: {row.reason}")
        self._shown = min(REJECTED_SHOWN_MAX, self._shown + len(rejected))

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._file is not None:
            self._file.save(self._state)
        self._is_saved = True


def _is_accepted(written: Future[BatchOutcome]) -> bool:
    """Whether a write that has ended did so without an error or a rejected row."""
    return not written.cancelled() and written.exception() is None and not written.result().rejected


def begin(source: ImportSource, file: StateFile | None, fingerprint: str, *, is_restart: bool) -> ImportState:
    """Return the state to begin with: that of an earlier run of the same import, if there is one."""
    found = None if file is None or is_restart else file.load(fingerprint)
    state = found or ImportState(fingerprint)
    extra: dict[str, Any] = source.prepare(state.extra)
    state.extra = extra
    return state
