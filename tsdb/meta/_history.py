"""Recording metadata changes in the shared log of a datanode, for point-in-time recovery.

    a change ─▶ its transaction, with the next number ─▶ a datanode appends it to its log ─▶ the caller gets the result

- Each change has a number in the order of all changes: that of the leadership, and one that increases by one. Notes can
  therefore be ordered again, whichever datanodes have them.
- The first note of a leadership contains the complete state, and so does the first one after a failed note, which
  covers what was not recorded in between.
- The sender of a change learns of its success only when it is recorded (`check_noted`). A change that was made but not
  recorded is not acknowledged.
- Without datanodes that retain their logs, nothing is recorded, and nothing is slower.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tsdb.catalog import is_of_a_server
from tsdb.errors import TsdbError
from tsdb.kv import KvStore, Operation, PutKey
from tsdb.meta._keys import EVERYTHING, NOTED_VERSION
from tsdb.meta.errors import ChangeNotNoted
from tsdb.model import Peer
from tsdb.telemetry import counter, get_logger

ATTEMPTS_MAX = 3
"""How many datanodes are asked to note a change."""

_log = get_logger("tsdb.meta")
_FAILED = counter(
    "tsdb_meta_notes_failed_total",
    "Changes that a datanode failed to record in its shared log for point-in-time recovery; another "
    "datanode is asked, and they are recorded later.",
)

Note = Mapping[str, Any]
Transact = Callable[[Sequence[Operation]], bool]


def read_order(kv: KvStore) -> tuple[int, int] | None:
    """Return the last change that was to be noted; None if there is none."""
    found = kv.get(NOTED_VERSION)
    if found is None:
        return None
    term, _, number = found.decode().partition(".")
    return int(term), int(number)


class CatalogHistory:
    """The notes of one leadership. Thread-safe: changes are made and noted one after the other."""

    def __init__(
        self,
        term: int,
        *,
        scan: Callable[[str], Sequence[tuple[str, bytes]]],
        confirm: Callable[[], object],
        keepers: Callable[[], Sequence[Peer] | None],
        send: Callable[[Peer, Note], object],
    ) -> None:
        """`confirm` raises if another leads; `keepers` are the datanodes to ask, None if none keeps its log."""
        self._term = term
        self._scan = scan
        self._confirm = confirm
        self._keepers = keepers
        self._send = send
        self._lock = threading.Lock()
        self._number = 0
        self._needs_base = True

    def record(self, operations: Sequence[Operation], transact: Transact) -> bool:
        """Make a change, and have it noted; return whether it was made."""
        changes = {
            each.key: each.value if isinstance(each, PutKey) else None
            for each in operations
            if is_of_a_server(each.key)
        }
        if not changes:
            return transact(operations)
        if self._keepers() is None:
            try:
                return transact(operations)
            finally:
                with self._lock:
                    self._needs_base = True
        # Across the transaction: what is noted is in the order in which it was made.
        with self._lock:
            return self._record(operations, changes, transact, self._keepers() or ())

    def keep_up(self, transact: Transact) -> None:
        """Note everything there is, if that is due: a leadership has begun, or a note failed."""
        with self._lock:
            keepers = self._keepers() if self._needs_base else None
            if keepers:
                self._record([], {}, transact, keepers)

    def check_noted(self, transact: Transact) -> None:
        """Raise ChangeNotNoted if there are changes that are not noted, although a datanode was asked once more."""
        self.keep_up(transact)
        with self._lock:
            if self._number and self._needs_base and self._keepers() is not None:
                raise ChangeNotNoted(
                    "the change was made, but is not in the shared log of a datanode yet",
                    hint="no datanode that keeps its log answers; check whether it was made before you repeat it",
                )

    def _record(
        self,
        operations: Sequence[Operation],
        changes: Mapping[str, bytes | None],
        transact: Transact,
        keepers: Sequence[Peer],
    ) -> bool:
        is_base, self._needs_base = self._needs_base, True
        number = self._number + 1
        try:
            is_made = transact([*operations, PutKey(NOTED_VERSION, f"{self._term}.{number}".encode())])
        except TsdbError:
            # It may have been made.
            self._number = number
            raise
        if not is_made:
            self._needs_base = is_base
            return False
        self._number = number
        self._needs_base = not self._note(keepers, changes, is_base=is_base)
        return True

    def _note(self, keepers: Sequence[Peer], changes: Mapping[str, bytes | None], *, is_base: bool) -> bool:
        try:
            if is_base:
                changes = {key: value for key, value in self._scan(EVERYTHING) if is_of_a_server(key)}
                # If another leads, this may be of its time.
                self._confirm()
            note = {"order": [self._term, self._number], "is_base": is_base, "metadata": dict(changes)}
            return any(self._try(peer, note) for peer in keepers[:ATTEMPTS_MAX])
        except TsdbError as error:
            _log.warning("a change of the metadata is not noted", error=error)
            return False

    def _try(self, peer: Peer, note: Note) -> bool:
        try:
            self._send(peer, note)
        except TsdbError as error:
            _FAILED.inc()
            _log.warning("a datanode did not note a change of the metadata", node=peer.node_id, error=error)
            return False
        return True
