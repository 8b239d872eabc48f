"""TLS to etcd: its files, checked before they are used.

gRPC takes any bytes as a certificate and then never connects, without saying why.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from tsdb.errors import InvalidArguments


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Files in PEM: authorities (the system's if None), and a certificate with its key if etcd asks for one."""

    ca_path: Path | None = None
    cert_path: Path | None = None
    key_path: Path | None = None

    def check(self) -> None:
        """Raise InvalidArguments that names the file if one cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca_path is not None:
            authorities = _read(self.ca_path)
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii", errors="replace"))
            except ssl.SSLError as error:
                raise InvalidArguments("there is no CA certificate in PEM in this file", path=self.ca_path) from error
        if self.cert_path is not None and self.key_path is not None:
            for path in (self.cert_path, self.key_path):
                _read(path)
            try:
                # Without the password, OpenSSL would ask the terminal for that of an encrypted key.
                context.load_cert_chain(self.cert_path, self.key_path, password="")
            except (ssl.SSLError, ValueError) as error:
                raise InvalidArguments(
                    f"the client certificate and its key cannot be used: {_reason(error)}",
                    certificate=self.cert_path,
                    key=self.key_path,
                ) from error

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            root_certificates=None if self.ca_path is None else _read(self.ca_path),
            private_key=None if self.key_path is None else _read(self.key_path),
            certificate_chain=None if self.cert_path is None else _read(self.cert_path),
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArguments(f"a file for TLS with etcd cannot be read: {error.strerror}", path=path) from error


def _reason(error: ssl.SSLError | ValueError) -> str:
    """Say in words what OpenSSL says: `KEY_VALUES_MISMATCH`."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)
