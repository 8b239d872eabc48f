"""Transactions that happen once, and whose outcome is known although replies get lost.

When a reply is lost, reading the keys back does not tell whether the transaction happened: another process may have
written the same values. So each transaction also writes a key of its own, the *witness*, and compares its revision:

    if (comparisons of the caller) and revision(witness) = r:  operations, witness := token

A witness is used by one transaction at a time. If the reply is lost, the store is asked

    if revision(witness) = r:  witness := "void" + token      otherwise: read witness

- It could be set: the transaction has not happened and never will, because its comparison with r fails from now on,
  even if the request is still on its way. It is tried again.
- The witness has the token: the transaction has happened.

Only if this question cannot be asked before the deadline, the caller is told `KvOutcomeUnknown`. Witnesses are under a
lease, so that etcd removes those of processes that are gone. A witness that is in doubt is not used again.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tsdb.errors import TsdbError
from tsdb.ids import Ids
from tsdb.kv._coordination import SharedOperation, last_of_each_key
from tsdb.kv._errors import KvClosed, KvOutcomeUnknown, KvUnavailable
from tsdb.kv._protocol import Compare
from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._client import EtcdClient
from tsdb.kv.etcd._failures import EtcdFailure, FailureKind
from tsdb.kv.etcd._methods import TXN
from tsdb.kv.etcd._metrics import IN_FLIGHT, OUTCOMES_UNKNOWN
from tsdb.kv.etcd._requests import Keyspace, entry_of, put, read, revision_is
from tsdb.kv.etcd._retry import CallRetry

_TOKEN_BYTES = 12
_VOID = b"void "


@dataclass(slots=True)
class _Witness:
    """A key, its last revision (0: it is not there), and the lease it is under."""

    key: bytes
    revision: int = 0
    lease_id: int = 0


class Transactions:
    """Runs transactions, at most `transactions_max` at a time."""

    def __init__(self, client: EtcdClient, keyspace: Keyspace, ids: Ids, witness_lease: Callable[[int], int]) -> None:
        """`witness_lease` returns a lease for witnesses, another one than the given one if that has ended."""
        self._client = client
        self._keyspace = keyspace
        self._ids = ids
        self._witness_lease = witness_lease
        self._idle: queue.LifoQueue[_Witness] = queue.LifoQueue()
        for _ in range(client.tuning.transactions_max):
            self._idle.put(self._new_witness())

    def check(self, compares: Sequence[Compare]) -> bool:
        """Say whether comparisons hold, changing nothing."""
        request = pb.TxnRequest(compare=[self._keyspace.comparison(each) for each in compares])
        return self._client.call(TXN, request, self._client.tuning.timeout_seconds).succeeded

    def run(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        """Do all operations if all comparisons hold; return whether they did."""
        retry = self._client.retry(self._client.tuning.timeout_seconds)
        prepared = pb.TxnRequest(
            compare=[self._keyspace.comparison(each) for each in compares],
            success=self._keyspace.operations(last_of_each_key(operations)),
        )
        with self._witness(retry) as witness:
            while True:
                try:
                    done = self._try(prepared, witness, retry)
                except EtcdFailure as failure:
                    if failure.kind is not FailureKind.LEASE_GONE or not self._replace_lease(witness):
                        raise failure.as_error() from failure
                    done = None
                if done is not None:
                    return done

    def _try(self, prepared: pb.TxnRequest, witness: _Witness, retry: CallRetry) -> bool | None:
        """Run once and learn the outcome: done, refused by a comparison, or None if it has not happened: once more."""
        token = self._ids.token(_TOKEN_BYTES).encode()
        if not witness.lease_id:
            witness.lease_id = self._witness_lease(0)
        request = self._witnessed(prepared, witness, token)
        try:
            reply = self._client.attempt(TXN, request, retry.remaining_seconds())
        except EtcdFailure as failure:
            if failure.kind is FailureKind.TRANSIENT:
                return self._resolve(witness, token, failure, retry)
            if not retry.wait(failure):
                raise
            return None
        if reply.succeeded:
            witness.revision = reply.header.revision
            return True
        found = entry_of(reply.responses[0].response_range)
        if (0 if found is None else found.revision) == witness.revision:
            return False
        # The witness went with its lease, or etcd was restored from a backup. Nothing was done.
        if not self._replace_lease(witness):
            witness.key, witness.revision = self._new_witness().key, 0
        return None

    def _resolve(self, witness: _Witness, token: bytes, failure: EtcdFailure, retry: CallRetry) -> bool | None:
        """Find out whether a transaction whose reply is lost happened, and ensure that it does not happen later."""
        void = _VOID + token
        request = pb.TxnRequest(
            compare=[revision_is(witness.key, witness.revision)],
            success=[put(witness.key, void, witness.lease_id)],
            failure=[read(witness.key)],
        )
        while retry.wait(failure):
            try:
                reply = self._client.attempt(TXN, request, retry.remaining_seconds())
            except EtcdFailure as again:
                failure = again
                continue
            if reply.succeeded:
                witness.revision = reply.header.revision
                return None
            found = entry_of(reply.responses[0].response_range)
            if found is None or found.value not in (token, void):
                break
            witness.revision = found.revision
            return True if found.value == token else None
        OUTCOMES_UNKNOWN.inc()
        raise KvOutcomeUnknown(
            f"it is not known whether a change of the metadata was made: {failure.details}",
            endpoint=failure.endpoint,
            hint="read the keys before changing them again",
        ) from failure

    def _witnessed(self, prepared: pb.TxnRequest, witness: _Witness, token: bytes) -> pb.TxnRequest:
        request = pb.TxnRequest()
        request.CopyFrom(prepared)
        request.compare.append(revision_is(witness.key, witness.revision))
        request.success.append(put(witness.key, token, witness.lease_id))
        request.failure.append(read(witness.key))
        return request

    @contextmanager
    def _witness(self, retry: CallRetry) -> Iterator[_Witness]:
        try:
            witness = self._idle.get(timeout=retry.remaining_seconds())
        except queue.Empty:
            raise KvUnavailable(
                "too many changes of the metadata at a time", limit=self._client.tuning.transactions_max
            ) from None
        try:
            with IN_FLIGHT.track_inprogress():
                yield witness
        except BaseException as error:
            # After a refusal nothing is on its way. Otherwise what the witness shows may still change.
            if isinstance(error, KvOutcomeUnknown | KvClosed) or not isinstance(error, TsdbError):
                witness = self._new_witness()
            raise
        finally:
            self._idle.put(witness)

    def _new_witness(self) -> _Witness:
        return _Witness(self._keyspace.own(f"witness/{self._ids.token(_TOKEN_BYTES)}"))

    def _replace_lease(self, witness: _Witness) -> bool:
        """Take another key under another lease if that of a witness has ended; return whether it has."""
        lease_id = self._witness_lease(witness.lease_id)
        if lease_id == witness.lease_id:
            return False
        witness.key, witness.revision, witness.lease_id = self._new_witness().key, 0, lease_id
        return True
