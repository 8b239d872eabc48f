"""The protocols clients speak. Each package here translates one of them and knows nothing of the others."""

from __future__ import annotations

from tsdb.servers._tls import Tls

__all__ = ["Tls"]
