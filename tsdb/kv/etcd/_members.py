"""What the members of the cluster say of themselves."""

from __future__ import annotations

from dataclasses import dataclass

from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._client import EtcdClient
from tsdb.kv.etcd._failures import EtcdFailure
from tsdb.kv.etcd._methods import STATUS


@dataclass(frozen=True, slots=True)
class EtcdMember:
    """One address, and what answers there."""

    address: str
    version: str = ""
    database_bytes: int = 0
    is_leader: bool = False
    problems: tuple[str, ...] = ()


def ask_members(client: EtcdClient) -> list[EtcdMember]:
    """Ask each address once; a member that does not answer has a problem and no version."""
    return [_ask(client, index) for index in range(len(client.endpoints))]


def _ask(client: EtcdClient, index: int) -> EtcdMember:
    endpoint = client.endpoints[index]
    try:
        found = client.ask(endpoint, STATUS, pb.StatusRequest())
    except EtcdFailure as failure:
        return EtcdMember(str(endpoint), problems=(failure.details,))
    is_leader = found.leader == found.header.member_id
    return EtcdMember(str(endpoint), found.version, found.db_size, is_leader, tuple(found.errors))
