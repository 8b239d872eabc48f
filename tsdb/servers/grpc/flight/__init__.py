"""Arrow Flight and Flight SQL: record batches both ways, for clients of Arrow.

    ticket ─▶ DoGet ─▶ statement ─▶ batches ─▶ FlightData, each body copied once
    FlightData ─▶ DoPut ─▶ sizes checked ─▶ batches ─▶ values checked ─▶ table

A ticket says all that is needed to run its statement; kept are only prepared statements and tokens, both bounded.
"""

from __future__ import annotations

from tsdb.servers.grpc.flight._service import flight_services

__all__ = ["flight_services"]
