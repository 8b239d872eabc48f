"""Metrics of etcd's client."""

from tsdb.telemetry import counter, gauge, histogram

REQUESTS = counter(
    "tsdb_etcd_requests_total",
    "Requests to etcd, each attempt counted.",
    labels=("method", "outcome"),
)
SECONDS = histogram(
    "tsdb_etcd_request_seconds",
    "Time of a request to etcd, failed ones included.",
    labels=("method",),
)
WATCH_RESETS = counter(
    "tsdb_etcd_watch_resets_total",
    "Times a watch read all its keys again because etcd no longer had the history.",
)
OUTCOMES_UNKNOWN = counter(
    "tsdb_etcd_unknown_outcomes_total",
    "Transactions whose outcome could not be determined.",
)
IN_FLIGHT = gauge(
    "tsdb_etcd_transactions_in_flight",
    "Transactions in flight to etcd; at most 8 for each store.",
)
