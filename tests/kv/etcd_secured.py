"""An etcd with TLS on both sides and users, as an operator would protect it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.kv.etcd_process import EtcdProcess, running_etcd

USER, PASSWORD = "meta", "etcd-p4ssword"
"""May use the keys below `tsdb/`."""


@dataclass(frozen=True)
class SecuredEtcd:
    """A member, and the files with which it can be reached."""

    member: EtcdProcess
    directory: Path

    def pem(self, name: str) -> str:
        """`ca`, `stranger` (another CA), `client`, `client_key`."""
        return str(self.directory / f"{name}.pem")

    def stored(self) -> set[str]:
        """What is stored below `tsdb/`."""
        return set(self.member.ctl("get", "--prefix", "tsdb/", "--keys-only").split())


@contextmanager
def running_secured_etcd(directory: Path) -> Iterator[SecuredEtcd]:
    _issue(directory)
    files = {name: str(directory / f"{name}.pem") for name in ("ca", "server", "server_key", "client", "client_key")}
    options = ["--cert-file", files["server"], "--key-file", files["server_key"], "--bcrypt-cost", "4"]
    options += ["--trusted-ca-file", files["ca"], "--client-cert-auth"]
    with running_etcd(directory, scheme="https", options=options) as member:
        member.env |= {
            "ETCDCTL_CACERT": files["ca"],
            "ETCDCTL_CERT": files["client"],
            "ETCDCTL_KEY": files["client_key"],
        }
        member.ctl("user", "add", "root:top")
        member.ctl("user", "grant-role", "root", "root")
        member.ctl("role", "add", "tsdb")
        member.ctl("role", "grant-permission", "tsdb", "--prefix=true", "readwrite", "tsdb/")
        member.ctl("user", "add", f"{USER}:{PASSWORD}")
        member.ctl("user", "grant-role", USER, "tsdb")
        member.ctl("auth", "enable")
        member.env["ETCDCTL_USER"] = "root:top"
        yield SecuredEtcd(member, directory)


def _issue(directory: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("metasrv@example.com")
    for name, blob in {
        "ca": authority.cert_pem,
        "stranger": stranger.cert_pem,
        "server": server.cert_chain_pems[0],
        "server_key": server.private_key_pem,
        "client": client.cert_chain_pems[0],
        "client_key": client.private_key_pem,
    }.items():
        blob.write_to_path(str(directory / f"{name}.pem"))
