"""Certificates of the gRPC server, read anew when their files change.

gRPC asks for them at each handshake. Connections that are open keep what they have; files that cannot be used, half of
a pair that is just being replaced for one, leave what was there in use, and the log says so.
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
