"""Injected ids: code that names files or writers takes `Ids`, so that a failing run can be repeated from its seed."""

from __future__ import annotations

import random
import secrets
from typing import Protocol


class Ids(Protocol):
    """Where ids come from. Any thread may ask."""

    def token(self, nbytes: int) -> str:
        """Return random bytes as hexadecimal digits, two for each byte."""
        ...


class SystemIds:
    """Ids that no other process chooses."""

    def token(self, nbytes: int) -> str:
        return secrets.token_hex(nbytes)


class SeededIds:
    """Ids that follow from a seed and the order of calls. For tests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def token(self, nbytes: int) -> str:
        return self._random.randbytes(nbytes).hex()


SYSTEM_IDS = SystemIds()
