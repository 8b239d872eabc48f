"""A way to the object store whose faults follow from a seed, and not from the order in which threads call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b

from tests.store.faulty_store import FaultyStore
from tsdb.store import ObjectStore

_CHANGING = ("put", "put_if_absent", "delete")
_KINDS = ("fail", "lose", "later", "twice")


class SeededStore(FaultyStore):
    """What becomes of a call depends on the seed, the process, the call, and how often it was made before."""

    def __init__(self, store: ObjectStore, seed: str, *, node: int, faults_per_thousand: int) -> None:
        super().__init__(store)
        self._seed = seed
        self._log = f"wal/{node}/"
        self.faults_per_thousand = faults_per_thousand
        self._made: Counter[tuple[str, str]] = Counter()
        self.is_cut_off = False
        self.holds_log = False
        """Objects of the own log do not reach the store."""
        self.meanwhile: tuple[int, Callable[[], None]] | None = None
        """What others do before the call of this number, counted from when it was set."""

    @property
    def takes_log(self) -> bool:
        return not self.is_cut_off and not self.holds_log

    def _begin(self, operation: str, path: str) -> str:
        if self._is_paused:
            return ""
        # How often a sender tries that depends on its pauses.
        if self.holds_log and operation in _CHANGING and path.startswith(self._log) and path.endswith(".log"):
            return "fail"
        self._let_others_act()
        if self.is_cut_off:
            return "fail"
        with self._lock:
            self._made[operation, path] += 1
            number = self._made[operation, path]
        drawn = int.from_bytes(blake2b(f"{self._seed} {operation} {path} {number}".encode(), digest_size=8).digest())
        if drawn % 1000 >= self.faults_per_thousand:
            return ""
        kind = _KINDS[drawn // 1000 % len(_KINDS)]
        return "fail" if kind in ("later", "twice") and operation not in _CHANGING else kind

    def _let_others_act(self) -> None:
        with self._lock:
            if self.meanwhile is None:
                return
            left, act = self.meanwhile
            self.meanwhile = (left - 1, act) if left > 1 else None
        if left == 1:
            act()
