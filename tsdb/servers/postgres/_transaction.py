"""What a connection says about transactions, which there are none of: BEGIN and COMMIT only change its status."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tsdb.errors import Unsupported
from tsdb.servers.postgres import _messages as m
from tsdb.servers.postgres._errors import notice_fields

NO_TRANSACTIONS = "there are no transactions: every statement takes effect by itself and stays done"

_ROLLBACK_TO = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\b", re.IGNORECASE)


class TransactionStatus:
    """The status in ReadyForQuery, as PostgreSQL would have it."""

    def __init__(self) -> None:
        self.letter = "I"
        self._was_warned = False

    @property
    def is_idle(self) -> bool:
        """Whether no transaction has begun."""
        return self.letter == "I"

    def ready(self) -> bytes:
        """Return ReadyForQuery."""
        return m.ready_for_query(self.letter)

    def note_failure(self) -> None:
        """A statement has failed."""
        if self.letter == "T":
            self.letter = "E"

    def change(self, verb: str, text: str) -> Iterator[bytes]:
        """Follow a statement about transactions; yields what PostgreSQL would remark."""
        if verb in ("begin", "start"):
            if not self.is_idle:
                yield m.notice(notice_fields("there is already a transaction in progress", state="25001"))
            elif not self._was_warned:
                self._was_warned = True
                yield m.notice(notice_fields(NO_TRANSACTIONS, severity="NOTICE"))
            self.letter = "T"
        elif verb in ("commit", "end", "rollback", "abort"):
            if self.is_idle:
                yield m.notice(notice_fields("there is no transaction in progress", state="25P01"))
            self.letter = "T" if _ROLLBACK_TO.match(text) and not self.is_idle else "I"
        elif verb in ("lock", "unlock"):
            raise Unsupported("LOCK TABLE is not supported")
