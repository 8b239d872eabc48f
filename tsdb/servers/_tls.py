"""TLS of a server: contexts from certificate files, reloaded when the files change.

    disable         no TLS
    prefer          offered; plain text is accepted
    require         plain text is refused
    verify_ca       as require; with a CA, clients must present a certificate signed by it
    verify_full     as verify_ca; and the common name of the certificate must be the user

The files are checked for each new TLS connection; open connections keep their keys. Files that cannot be read, such as
half of a pair that is being replaced, leave the previous keys in use, and the log says so.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsdb.config import TlsMode, TlsOptions
from tsdb.errors import StartError
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.tls")

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Pem:
    """The contents of the files, for servers that do not use Python's TLS."""

    key: bytes
    chain: bytes
    ca: bytes | None
    """None: clients need no certificate."""
    stamp: _Stamp


class Tls:
    """The transport security of one server. Safe to use from many threads."""

    def __init__(
        self,
        mode: TlsMode,
        *,
        cert_path: str = "",
        key_path: str = "",
        ca_cert_path: str = "",
        watch: bool = True,
        section: str = "tls",
    ) -> None:
        """`section` names the part of the configuration in messages: `mysql.tls`."""
        self.mode = mode
        self._files = [Path(each) for each in (cert_path, key_path, ca_cert_path) if each]
        self._cert_path, self._key_path, self._ca_cert_path = cert_path, key_path, ca_cert_path
        self._watch = watch
        self._section = section
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._stamp: _Stamp = ()

    @classmethod
    def of(cls, options: TlsOptions, *, section: str) -> Tls:
        """The TLS settings of a configuration section."""
        return cls(
            options.mode,
            cert_path=options.cert_path,
            key_path=options.key_path,
            ca_cert_path=options.ca_cert_path,
            watch=options.watch,
            section=section,
        )

    @property
    def is_offered(self) -> bool:
        return self.mode is not TlsMode.DISABLE

    @property
    def is_required(self) -> bool:
        return self.mode not in (TlsMode.DISABLE, TlsMode.PREFER)

    @property
    def verifies_user(self) -> bool:
        """Whether a client's certificate must be in the name of the user who logs in."""
        return self.mode is TlsMode.VERIFY_FULL and bool(self._ca_cert_path)

    def load(self) -> None:
        """Read the files for the first time; StartError when there is something wrong with them."""
        if not self.is_offered:
            return
        try:
            self._stamp, self._context = self._read_stamp(), self._make_context()
        except (OSError, ssl.SSLError) as error:
            raise StartError(
                f"cannot use the certificate and the key of {self._section}: {_explain(error)}",
                hint=f"check {self._section}.cert_path and {self._section}.key_path",
            ) from error
        if self.mode in (TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL) and not self._ca_cert_path:
            _log.warning(
                "clients need no certificate: there is no CA to verify them with",
                mode=str(self.mode),
                hint=f"set {self._section}.ca_cert_path",
            )

    def context(self) -> ssl.SSLContext:
        """Return what a new connection uses."""
        with self._lock:
            if self._context is None:
                self.load()
            elif self._watch:
                self._reload()
            assert self._context is not None, "TLS is disabled"
            return self._context

    def read_pem(self) -> Pem:
        """Return what is in the files; they were loaded before, so that they can be used."""
        stamp = self._read_stamp()
        return Pem(
            key=Path(self._key_path).read_bytes(),
            chain=Path(self._cert_path).read_bytes(),
            ca=Path(self._ca_cert_path).read_bytes() if self._verifies_clients else None,
            stamp=stamp,
        )

    def read_changed_pem(self, was: Pem) -> Pem | None:
        """Return what is in the files if that is new and can be used; None to go on with what was there."""
        if not self._watch:
            return None
        with self._lock:
            try:
                if self._read_stamp() == was.stamp:
                    return None
                self._make_context()
                found = self.read_pem()
                _log.info("new certificate", section=self._section)
                return found
            except (OSError, ssl.SSLError) as error:
                _log.warning("the certificate was not reloaded", section=self._section, error=_explain(error))
                return None

    @property
    def _verifies_clients(self) -> bool:
        return bool(self._ca_cert_path) and self.mode in (TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL)

    def _reload(self) -> None:
        try:
            stamp = self._read_stamp()
            if stamp == self._stamp:
                return
            self._context = self._make_context()
            self._stamp = stamp
            _log.info("new certificate", section=self._section)
        except (OSError, ssl.SSLError) as error:
            _log.warning("the certificate was not reloaded", section=self._section, error=_explain(error))

    def _read_stamp(self) -> _Stamp:
        found = [os.stat(each) for each in self._files]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert_path, self._key_path)
        if self._verifies_clients:
            context.load_verify_locations(self._ca_cert_path)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name of a client certificate, as returned by `getpeercert`."""
    subject: Sequence[Sequence[tuple[str, str]]] = (certificate or {}).get("subject", ())
    return next((value for part in subject for name, value in part if name == "commonName"), None)


def _explain(error: OSError | ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
