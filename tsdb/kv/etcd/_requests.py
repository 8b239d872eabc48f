"""Keys, comparisons and operations as etcd's messages.

All keys are below the prefix of the store. Keys of the store's own (witnesses of transactions) begin with the byte 0xFF
behind it, which text in UTF-8 never contains: they are outside of every range of keys, also of that of all keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.kv._coordination import KvEntry, PutLeased, SharedOperation
from tsdb.kv._protocol import Absent, Compare, DeleteKey, Equals, RevisionIs
from tsdb.kv.etcd import etcd_pb2 as pb

_OWN = b"\xff"


class Keyspace:
    """The keys below a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()

    def encode(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def decode(self, key: bytes) -> str | None:
        """Return a key as its user knows it, None if it is not text: then another program has put it there."""
        try:
            return key[len(self._prefix) :].decode()
        except UnicodeDecodeError:
            return None

    def own(self, name: str) -> bytes:
        """Return a key that no user of the store can name."""
        return self._prefix + _OWN + name.encode()

    def range_of(self, prefix: str) -> tuple[bytes, bytes]:
        """Return the first key with a prefix and the first one behind them all."""
        begin = self.encode(prefix)
        # The last byte of UTF-8 is below 0xFF, and so is that of the key behind.
        return begin, begin[:-1] + bytes([begin[-1] + 1]) if prefix else begin + _OWN

    def comparison(self, compare: Compare) -> pb.Comparison:
        key = self.encode(compare.key)
        match compare:
            case Absent():
                return revision_is(key, 0)
            case Equals():
                return pb.Comparison(
                    result=pb.Comparison.EQUAL, target=pb.Comparison.VALUE, key=key, value=compare.value
                )
            case RevisionIs():
                return revision_is(key, compare.revision)

    def operations(self, operations: Sequence[SharedOperation]) -> list[pb.RequestOp]:
        return [self._operation(each) for each in operations]

    def _operation(self, operation: SharedOperation) -> pb.RequestOp:
        key = self.encode(operation.key)
        if isinstance(operation, DeleteKey):
            return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
        lease_id = operation.lease_id if isinstance(operation, PutLeased) else 0
        return put(key, operation.value, lease_id)


def revision_is(key: bytes, revision: int) -> pb.Comparison:
    """Hold if the key was last changed at a revision; 0 stands for a key that is not there."""
    return pb.Comparison(result=pb.Comparison.EQUAL, target=pb.Comparison.MOD, key=key, mod_revision=revision)


def put(key: bytes, value: bytes, lease_id: int) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease_id))


def read(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def entry_of(found: pb.RangeResponse) -> KvEntry | None:
    """Return the one key of a reply, None if it has none."""
    if not found.kvs:
        return None
    kv = found.kvs[0]
    return KvEntry(kv.value, kv.mod_revision, kv.lease)
