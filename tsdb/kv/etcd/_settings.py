"""How to reach etcd: addresses, credentials, and the times and sizes of the client."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tsdb.errors import InvalidArguments
from tsdb.kv.etcd._tls import EtcdTls

DEFAULT_PORT = 2379
_ENDPOINT = re.compile(r"(?:(https?)://)?(\[[0-9a-fA-F:.%]+\]|[^\s:/,\[\]@]+)(?::(\d{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of one member of the cluster."""

    host: str
    port: int
    is_secure: bool

    @property
    def target(self) -> str:
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.target}"


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """Where the metadata is, and as whom to come."""

    endpoints: tuple[Endpoint, ...]
    key_prefix: str = "tsdb/"
    """Everything is below it, so that one etcd can serve several clusters and other programs."""
    username: str = ""
    password: str = field(default="", repr=False)
    tls: EtcdTls | None = None

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise InvalidArguments("no address of etcd is given", hint="write host:port, several separated by commas")
        if not self.key_prefix:
            raise InvalidArguments("the prefix of the keys in etcd is empty", hint="choose one, such as tsdb/")
        if self.tls is not None and (self.tls.cert_path is None) != (self.tls.key_path is None):
            raise InvalidArguments("a client certificate for etcd needs both its file and the file of its key")

    @classmethod
    def of(
        cls,
        addresses: str,
        *,
        username: str = "",
        password: str = "",
        ca_path: str = "",
        cert_path: str = "",
        key_path: str = "",
    ) -> EtcdSettings:
        """Read what a configuration says, with "" for what it does not; InvalidArguments if that cannot work.

        With a file for TLS, addresses that do not say are secure.
        """
        if bool(username) != bool(password):
            missing = "password" if username else "user name"
            raise InvalidArguments(f"a login to etcd needs a user name and a password; there is no {missing}")
        has_tls = any((ca_path, cert_path, key_path))
        endpoints = parse_endpoints(addresses, is_secure=has_tls)
        plain = next((each for each in endpoints if not each.is_secure), None)
        if has_tls and plain is not None:
            raise InvalidArguments(f"{plain} is without TLS, but files for TLS with etcd are given")
        tls = EtcdTls(_path(ca_path), _path(cert_path), _path(key_path)) if has_tls else None
        settings = cls(endpoints, username=username, password=password, tls=tls)
        if tls is not None:
            tls.check()
        return settings


@dataclass(frozen=True, slots=True)
class EtcdTuning:
    """Times and sizes."""

    timeout_seconds: float = 5.0
    """How long an operation may take, with all of its attempts."""
    attempt_seconds: float = 2.0
    """How long one member may take before another is asked."""
    backoff_min_seconds: float = 0.05
    backoff_max_seconds: float = 1.0
    """Pause after all members failed; doubled each time."""
    page_keys: int = 500
    """How many keys are read by one request."""
    reply_bytes_max: int = 64 << 20
    transactions_max: int = 8
    """How many transactions are on their way at a time; others wait."""
    witness_ttl_seconds: int = 600
    """How long etcd keeps the witness of a transaction after this process has ended."""
    watch_backlog: int = 64
    """How many replies of a watch wait for their reader; then etcd holds the rest back."""
    ping_seconds: float = 10.0
    """How often an open stream checks its connection; etcd forbids less than 5 s."""
    ping_timeout_seconds: float = 5.0


def parse_endpoints(text: str, *, is_secure: bool = False) -> tuple[Endpoint, ...]:
    """Read addresses separated by commas or spaces: `host`, `host:port`, with or without `http://` or `https://`.

    `is_secure` decides for those that do not say.
    """
    return tuple(dict.fromkeys(_parse_endpoint(item, is_secure) for item in re.split(r"[,\s]+", text) if item))


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _parse_endpoint(text: str, is_secure: bool) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    port = int(found[3] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise InvalidArguments(f"{text!r} is not an address of etcd", hint="write host:port or https://host:port")
    return Endpoint(found[2], port, found[1] == "https" if found[1] else is_secure)
