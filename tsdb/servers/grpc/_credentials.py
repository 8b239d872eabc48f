"""Certificates of the gRPC server, reloaded when their files change.

gRPC requests them at each handshake. Open connections keep theirs. Files that cannot be used, such as half of a pair
that is being replaced, leave the previous ones in use, and the log says so.
"""

from __future__ import annotations

import grpc

from tsdb.servers._tls import Tls


def make_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Return credentials that follow the files of `tls`, which has loaded them once."""
    pem = tls.read_pem()

    def configuration() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(pem.key, pem.chain)], pem.ca)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal pem
        found = tls.read_changed_pem(pem)
        if found is None:
            return None
        pem = found
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, require_client_authentication=pem.ca is not None)
