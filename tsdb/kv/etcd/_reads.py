"""Reading keys: one, or all with a prefix as they are at one moment.

Many keys are read in pages. The first page says at which revision it was read, the others are read at that revision.
Should etcd compact its history between two pages, the reading starts over.
"""

from __future__ import annotations

from tsdb.kv._coordination import KvEntry, WatchReset
from tsdb.kv._errors import KvConflict
from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._client import EtcdClient
from tsdb.kv.etcd._failures import EtcdFailure, FailureKind
from tsdb.kv.etcd._methods import RANGE
from tsdb.kv.etcd._requests import Keyspace, entry_of

_STARTS_MAX = 5


def find_key(client: EtcdClient, keyspace: Keyspace, key: str) -> KvEntry | None:
    request = pb.RangeRequest(key=keyspace.encode(key))
    return entry_of(client.call(RANGE, request, client.tuning.timeout_seconds))


def read_snapshot(client: EtcdClient, keyspace: Keyspace, prefix: str) -> WatchReset:
    for _ in range(_STARTS_MAX):
        found = _read_pages(client, keyspace, prefix)
        if found is not None:
            return found
    raise KvConflict(
        "etcd compacts its history faster than the keys can be read", prefix=prefix, hint="let it keep more history"
    )


def _read_pages(client: EtcdClient, keyspace: Keyspace, prefix: str) -> WatchReset | None:
    """Read all pages at one revision; None if etcd has forgotten it meanwhile."""
    begin, end = keyspace.range_of(prefix)
    limit, revision = client.tuning.page_keys, 0
    pairs: list[tuple[str, bytes]] = []
    while True:
        request = pb.RangeRequest(key=begin, range_end=end, limit=limit, revision=revision)
        page = _read_page(client, request)
        if page is None:
            return None
        limit = request.limit
        pairs += [(key, kv.value) for kv in page.kvs if (key := keyspace.decode(kv.key)) is not None]
        revision = revision or page.header.revision
        if not page.more:
            return WatchReset(revision, tuple(pairs))
        begin = page.kvs[-1].key + b"\0"


def _read_page(client: EtcdClient, request: pb.RangeRequest) -> pb.RangeResponse | None:
    """Read a page, a smaller one if its values are too large; the limit of the request says how large it was."""
    retry = client.retry(client.tuning.timeout_seconds)
    while True:
        try:
            return client.attempt(RANGE, request, retry.remaining_seconds())
        except EtcdFailure as failure:
            if failure.kind is FailureKind.COMPACTED:
                return None
            if failure.kind is FailureKind.REPLY_TOO_LARGE and request.limit > 1:
                request.limit //= 2
            elif not retry.wait(failure):
                raise failure.as_error() from failure
