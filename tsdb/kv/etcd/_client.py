"""Calls to etcd: with a deadline each, a token if there is a user, and another member when one fails.

`attempt` asks one member once. `call` asks until one answers, and is for requests that may be repeated: reads, grants
and renewals of leases. Transactions that change something are in `_transactions.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from tsdb.clock import Clock
from tsdb.kv._errors import KvClosed
from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._channels import Channels
from tsdb.kv.etcd._failures import EtcdFailure, FailureKind, classify
from tsdb.kv.etcd._methods import AUTHENTICATE, Method, RequestT, ResponseT
from tsdb.kv.etcd._metrics import REQUESTS, SECONDS
from tsdb.kv.etcd._retry import CallRetry
from tsdb.kv.etcd._settings import Endpoint, EtcdSettings, EtcdTuning

_REQUIRE_LEADER = ("hasleader", "true")
"""A member without a leader refuses, instead of letting a stream wait for events that cannot come."""


class EtcdClient:
    """The cluster as one thing that can be called. Any thread may use it."""

    def __init__(self, settings: EtcdSettings, tuning: EtcdTuning, clock: Clock) -> None:
        self.tuning = tuning
        self.clock = clock
        self._settings = settings
        self._channels = Channels(settings, tuning)
        self._closed = threading.Event()
        self._login = threading.Lock()
        self._token = ""
        self._is_login_needed = bool(settings.username)

    def call(self, method: Method[RequestT, ResponseT], request: RequestT, timeout_seconds: float) -> ResponseT:
        """Ask until a member answers or the time is over; raise an error of the metadata store."""
        retry = self.retry(timeout_seconds)
        # A member that hangs must leave time for the others.
        share = timeout_seconds / len(self.endpoints)
        while True:
            try:
                return self.attempt(method, request, min(share, retry.remaining_seconds()))
            except EtcdFailure as failure:
                if not retry.wait(failure):
                    raise failure.as_error() from failure

    def attempt(self, method: Method[RequestT, ResponseT], request: RequestT, timeout_seconds: float) -> ResponseT:
        """Ask the preferred member once."""
        endpoint = self._channels.preferred()
        timeout = min(timeout_seconds, self.tuning.attempt_seconds)
        with self._translated(endpoint):
            metadata = self._metadata(endpoint, timeout)
            return self._invoke(endpoint, method, request, timeout, metadata)

    def ask(self, endpoint: Endpoint, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Ask one member and no other."""
        with self._translated(endpoint):
            metadata = self._metadata(endpoint, self.tuning.attempt_seconds)
            return self._invoke(endpoint, method, request, self.tuning.attempt_seconds, metadata)

    def stream(self, method: Method[RequestT, ResponseT], requests: Iterable[RequestT]) -> tuple[Endpoint, Any]:
        """Open a stream to the preferred member. It ends with an `RpcError` (`failure_of`) or when it is cancelled."""
        endpoint = self._channels.preferred()
        with self._translated(endpoint):
            metadata = self._metadata(endpoint, self.tuning.attempt_seconds)
            callable_ = self._channels.channel(endpoint).stream_stream(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            return endpoint, callable_(iter(requests), metadata=metadata)

    def failure_of(self, error: grpc.RpcError, endpoint: Endpoint) -> EtcdFailure:
        """Say what a failed call or the end of a stream means, and avoid its member if that helps."""
        failure = EtcdFailure.of(error, str(endpoint))
        if self._settings.username and "user name is empty" in failure.details:
            # Authentication was switched on since the last login was found to be needless.
            failure.kind = FailureKind.TOKEN
        return self.note(failure, endpoint)

    def note(self, failure: EtcdFailure, endpoint: Endpoint) -> EtcdFailure:
        if self._closed.is_set():
            raise KvClosed from failure
        if failure.is_timeout:
            self._channels.timed_out(endpoint)
        if failure.is_passing:
            self._channels.avoid(endpoint)
        elif failure.kind is FailureKind.TOKEN:
            self._token = ""
            self._is_login_needed = bool(self._settings.username)
        return failure

    def retry(self, timeout_seconds: float) -> CallRetry:
        return CallRetry(
            timeout_seconds,
            tuning=self.tuning,
            clock=self.clock,
            members=len(self.endpoints),
            wait_closed=self.wait_closed,
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return self._channels.endpoints

    def wait_closed(self, timeout_seconds: float) -> bool:
        return self._closed.wait(timeout_seconds)

    def close(self) -> None:
        self._closed.set()
        self._channels.close()

    @contextmanager
    def _translated(self, endpoint: Endpoint) -> Iterator[None]:
        """Turn errors of gRPC into failures, and note which member failed."""
        try:
            yield
        except grpc.RpcError as error:
            raise self.failure_of(error, endpoint) from error
        except EtcdFailure as failure:
            raise self.note(failure, endpoint) from failure.__cause__
        except ValueError as error:
            # grpcio refuses calls on a closed channel this way: closed by `close`, or because calls timed out on it.
            if "Cannot invoke RPC" not in str(error):
                raise
            if self._closed.is_set():
                raise KvClosed from error
            raise EtcdFailure(FailureKind.TRANSIENT, "the connection was replaced", str(endpoint)) from error

    def _invoke(
        self,
        endpoint: Endpoint,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        timeout: float,
        metadata: list[tuple[str, str]],
    ) -> ResponseT:
        """Send a request and count it."""
        outcome = FailureKind.TRANSIENT.name.lower()
        with SECONDS.labels(method.name).time():
            try:
                reply = self._send(endpoint, method, request, timeout, metadata)
                outcome = "ok"
                self._channels.answered(endpoint)
                return reply
            except grpc.RpcError as error:
                outcome = classify(error.code(), error.details() or "").name.lower()
                raise
            finally:
                REQUESTS.labels(method.name, outcome).inc()

    def _send(
        self,
        endpoint: Endpoint,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        timeout: float,
        metadata: list[tuple[str, str]],
    ) -> ResponseT:
        channel = self._channels.channel(endpoint)
        codec = {
            "request_serializer": method.request.SerializeToString,
            "response_deserializer": method.response.FromString,
        }
        if not method.is_stream:
            response: ResponseT = channel.unary_unary(method.path, **codec)(request, timeout=timeout, metadata=metadata)
            return response
        replies: Iterator[ResponseT] = channel.stream_stream(method.path, **codec)(
            iter([request]), timeout=timeout, metadata=metadata
        )
        for reply in replies:
            return reply
        raise EtcdFailure(FailureKind.TRANSIENT, "the stream ended without a reply", str(endpoint))

    def _metadata(self, endpoint: Endpoint, timeout: float) -> list[tuple[str, str]]:
        with self._login:
            if self._is_login_needed and not self._token:
                self._token = self._authenticate(endpoint, timeout)
            return [_REQUIRE_LEADER, ("token", self._token)] if self._token else [_REQUIRE_LEADER]

    def _authenticate(self, endpoint: Endpoint, timeout: float) -> str:
        request = pb.AuthenticateRequest(name=self._settings.username, password=self._settings.password)
        try:
            return self._invoke(endpoint, AUTHENTICATE, request, timeout, []).token
        except grpc.RpcError as error:
            if "authentication is not enabled" not in (error.details() or ""):
                raise
            # Operators give servers a user first and switch authentication on then.
            self._is_login_needed = False
            return ""
