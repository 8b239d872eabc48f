"""Arrow Flight and Flight SQL: record batches in both directions.

    ticket ─▶ DoGet ─▶ statement ─▶ batches ─▶ FlightData, each body copied once
    FlightData ─▶ DoPut ─▶ sizes checked ─▶ batches ─▶ values checked ─▶ table

A ticket has everything that is needed to run its statement; the server keeps only prepared statements and tokens, both
bounded.
"""

from tsdb.servers.grpc.flight._service import flight_services

__all__ = ["flight_services"]
