"""The protocols that clients speak, one package each; none imports another."""

from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._tls import Tls

__all__ = ["QueryScheduler", "Tls"]
