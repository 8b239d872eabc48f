"""Hints: what a call says about tables that it may create.

x-tsdb-hints, x-greptime-hints            ttl=7d,append_mode=true
x-tsdb-hint-ttl, x-greptime-hint-ttl      7d            one each, when the first is not there
"""

from __future__ import annotations

from tsdb.servers.grpc._calls import GrpcCall

_PREFIXES = ("x-tsdb-hint-", "x-greptime-hint-")


def read_hints(call: GrpcCall) -> dict[str, str]:
    said = call.find("hints")
    if said is None:
        return {
            key.removeprefix(prefix): value.strip()
            for key, value in call.metadata.items()
            for prefix in _PREFIXES
            if key.startswith(prefix) and isinstance(value, str)
        }
    pairs = (pair.partition("=") for pair in said.split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip()}
