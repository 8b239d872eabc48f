"""The protocols that clients speak, one package each; none imports another."""

from __future__ import annotations

from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._tls import Tls

__all__ = ["QueryScheduler", "Tls"]
