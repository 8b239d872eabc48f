"""The HTTP API of Prometheus: queries, listings of series and labels, federation, status."""

from tsdb.servers.http.prometheus._api import prometheus_api_routes
from tsdb.servers.http.prometheus._status import ServerFacts

__all__ = ["ServerFacts", "prometheus_api_routes"]
