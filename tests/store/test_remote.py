"""A remote store whose service fails: requests are repeated, lost answers are resolved, nothing wrong is passed on."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import suppress
from dataclasses import replace

import pytest
from opendal import exceptions

from tests.store.faulty_service import FaultyOperator, faulty_store, server_error
from tests.store.services import PATIENT, S3Server
from tsdb.clock import ManualClock
from tsdb.store import (
    InvalidRange,
    ObjectExists,
    ObjectNotFound,
    Operation,
    Purpose,
    StoreError,
    StoreMisconfigured,
    StoreUnreachable,
    request_facts,
    requests_for,
)
from tsdb.store.remote import RemoteStore
from tsdb.store.remote._failures import explain
from tsdb.telemetry import REGISTRY


def test_requests_that_fail_are_repeated_and_counted() -> None:
    store, service = faulty_store()
    service.fail("write", times=2)
    service.fail("read", error=lambda: server_error(503))
    store.put("a", b"content")
    assert store.get("a") == b"content"
    put, get = sorted(store.ledger.counts(), key=lambda each: each.operation, reverse=True)
    assert (put.operation, put.requests, put.errors, put.retries, put.nbytes) == (Operation.PUT, 3, 2, 2, 7)
    assert (get.operation, get.requests, get.errors, get.retries, get.nbytes) == (Operation.GET, 2, 1, 1, 7)


def test_requests_are_counted_for_their_purpose() -> None:
    store, _ = faulty_store()
    with requests_for(Purpose.FLUSH):
        store.put("a", b"x")
        with requests_for(Purpose.MANIFEST):
            store.put("b", b"x")
    store.get("a")
    assert [(each.operation.value, each.purpose.value) for each in store.ledger.counts()] == [
        ("get", "query"),
        ("put", "flush"),
        ("put", "manifest"),
    ]


def test_a_refusal_is_not_repeated() -> None:
    store, service = faulty_store()
    refusal = 'PermissionDenied (permanent) at read => S3Error { code: "InvalidAccessKeyId", message: "no" }\n'
    service.fail("read", error=lambda: exceptions.PermissionDenied(refusal))
    with pytest.raises(StoreMisconfigured, match=r"credentials are refused \(InvalidAccessKeyId\)"):
        store.get("a")
    assert service.calls["read"] == 1


def test_a_store_that_is_down_is_asked_once_until_it_answers_again() -> None:
    store, service = faulty_store()
    store.put("a", b"x")
    service.fail("read", times=100)
    with pytest.raises(StoreUnreachable):
        store.get("a")
    assert service.calls["read"] == PATIENT.attempts_max
    assert store.is_down
    with pytest.raises(StoreUnreachable):
        store.get("a")
    assert service.calls["read"] == PATIENT.attempts_max + 1
    service.heal()
    assert store.get("a") == b"x"
    assert not store.is_down


def test_the_ledger_knows_why_and_since_when_a_store_is_down_and_that_it_came_back() -> None:
    clock = ManualClock(1_700_000_000_000_000_000)
    store, service = faulty_store(name="ledger of a store", clock=clock)
    service.fail("write")
    store.put("a", b"x")
    ((state, reason, since_ms, last_error),) = shown(store)
    assert (state, reason, since_ms) == ("ok", None, None)
    assert last_error is not None, "a request that was repeated with success leaves its error"
    service.is_down = True
    clock.advance(seconds=5)
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            store.get("a")
        clock.advance(seconds=1)
    assert in_trouble(store) == 1
    ((state, reason, since_ms, last_error),) = shown(store)
    assert (state, since_ms) == ("down", 1_700_000_005_000)
    assert reason == last_error
    assert reason is not None
    assert "cannot read from memory://bucket" in reason
    service.is_down = False
    assert store.get("a") == b"x"
    assert shown(store) == {("ok", None, 1_700_000_007_000, last_error)}
    assert in_trouble(store) == 0


def test_a_store_that_refuses_is_not_down_and_not_fine() -> None:
    store, service = faulty_store(name="a store that refuses")
    store.put("a", b"x")
    refusal = 'PermissionDenied (permanent) at read => S3Error { code: "InvalidAccessKeyId", message: "no" }\n'
    service.fail("read", error=lambda: exceptions.PermissionDenied(refusal))
    with pytest.raises(StoreMisconfigured):
        store.get("a")
    ((state, reason, since_ms, last_error),) = shown(store)
    assert state == "refusing"
    assert not store.is_down
    assert since_ms
    assert reason == last_error
    with pytest.raises(ObjectNotFound):
        store.get("nothing of this name")
    assert {state for state, *_ in shown(store)} == {"ok"}, "that there is no such object is an answer"


def test_requests_that_found_no_room_do_not_bring_a_store_back() -> None:
    store, service = faulty_store(replace(PATIENT, requests_max=1, retry_seconds_max=0.01))
    store.put("a", b"x")
    service.is_down = True
    with pytest.raises(StoreUnreachable):
        store.get("a")
    entered, go = threading.Event(), threading.Event()

    def enter(_: str) -> None:
        entered.set()
        go.wait(30)

    service.on_call = enter
    busy = threading.Thread(target=lambda: suppressed(store))
    busy.start()
    assert entered.wait(30)
    with pytest.raises(StoreUnreachable, match="too many requests"):
        store.get("a")
    assert store.is_down
    go.set()
    busy.join(30)


def suppressed(store: RemoteStore) -> None:
    with suppress(StoreUnreachable):
        store.get("a")


def shown(store: RemoteStore) -> set[tuple[str, str | None, int | None, str | None]]:
    """The state of a store, as the rows of its requests have it."""
    facts = [each for each in request_facts() if each.store == store.name]
    return {(each.state, each.reason, each.since_ms, each.last_error) for each in facts}


def in_trouble(store: RemoteStore) -> float | None:
    return REGISTRY.get_sample_value("tsdb_store_in_trouble", {"store": store.name})


def test_a_creation_whose_answer_was_lost_is_recognised_by_its_content() -> None:
    store, service = faulty_store()
    service.lose_reply("write")
    store.put_if_absent("v/1", b"mine")
    assert store.get("v/1") == b"mine"


def test_a_creation_of_which_all_answers_were_lost_is_recognised_by_its_content() -> None:
    store, service = faulty_store()
    service.lose_reply("write", times=PATIENT.attempts_max)
    store.put_if_absent("v/1", b"mine")
    assert service.calls["write"] == PATIENT.attempts_max


def test_a_creation_that_failed_and_finds_another_object_has_lost() -> None:
    store, service = faulty_store()
    store.put("v/1", b"theirs")
    service.fail("write")
    with pytest.raises(ObjectExists):
        store.put_if_absent("v/1", b"mine")
    assert store.get("v/1") == b"theirs"


def test_a_creation_that_cannot_be_resolved_says_so() -> None:
    store, service = faulty_store()
    service.fail("write", times=100)
    service.fail("read", times=100)
    with pytest.raises(StoreUnreachable):
        store.put_if_absent("v/1", b"mine")


def test_the_second_of_two_equal_creations_is_refused() -> None:
    store, _ = faulty_store()
    store.put_if_absent("v/1", b"same")
    with pytest.raises(ObjectExists):
        store.put_if_absent("v/1", b"same")


def test_a_range_that_is_cut_short_is_asked_for_again() -> None:
    store, service = faulty_store()
    store.put("a", bytes(100))
    answers = iter([b"x" * 10, b"x" * 110])
    service.cut = lambda data: next(answers, data)
    assert store.get_range("a", 10, 50) == bytes(50)
    assert service.calls["read"] == 3


@pytest.mark.parametrize("size", [10, 110])
def test_an_answer_of_the_wrong_length_is_never_passed_on(size: int) -> None:
    store, service = faulty_store()
    store.put("a", bytes(100))
    service.cut = lambda _: b"x" * size
    with pytest.raises(StoreUnreachable, match=f"answered with {size} bytes instead of 50"):
        store.get_range("a", 10, 50)
    assert service.calls["read"] == PATIENT.attempts_max


def test_a_range_behind_the_end_is_asked_for_once() -> None:
    store, service = faulty_store()
    store.put("a", bytes(100))
    with pytest.raises(InvalidRange, match="size_bytes: 100"):
        store.get_range("a", 90, 20)
    assert service.calls["read"] == 1


def test_a_listing_goes_on_behind_the_page_that_arrived() -> None:
    store, service = faulty_store(replace(PATIENT, list_page=3))
    names = [f"d/{number}" for number in range(8)]
    for name in names:
        store.put(name, b"")
    service.fail("list")
    assert [meta.path for meta in store.list("d")] == names


def test_no_more_requests_are_under_way_than_are_allowed() -> None:
    store, service = faulty_store(replace(PATIENT, requests_max=2))
    store.put("a", b"x")
    lock, full, go = threading.Lock(), threading.Event(), threading.Event()
    running = most = 0

    def enter(_: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                full.set()
        go.wait(10)
        with lock:
            running -= 1

    service.on_call = enter
    threads = [threading.Thread(target=store.get, args=("a",)) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert full.wait(10)
    go.set()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_large_object_is_sent_in_parts_that_are_not_kept() -> None:
    store, service = faulty_store()
    part, total = 8 << 20, 200 << 20
    piece, held = bytes(3 << 20), 0
    with store.writer("big", buffer_bytes=part) as sink:
        for _ in range(total // len(piece)):
            sink.write(piece)
            held = max(held, sink.held_bytes)  # type: ignore[attr-defined]
        sink.write(piece[: total % len(piece)])
    assert held <= part
    assert service.parts == [part] * (total // part)
    assert service.calls["complete"] == 1
    assert service.calls["write"] == 0


def test_an_upload_that_fails_is_not_completed() -> None:
    store, service = faulty_store()
    service.fail("part")
    with pytest.raises(StoreError), store.writer("big", buffer_bytes=8 << 20) as sink:
        sink.write(bytes(20 << 20))
    assert service.calls["complete"] == 0


def test_the_probe_finds_a_service_that_overwrites_and_one_process_is_still_safe() -> None:
    store, service = faulty_store()
    service.ignores_conditions = True
    store.probe()
    assert not store.creates_only_once
    won = []

    def create(number: int) -> None:
        try:
            store.put_if_absent("v/1", str(number).encode())
        except ObjectExists:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get("v/1")] == [str(number).encode() for number in won]


def test_the_probe_accepts_a_service_that_does_not_know_conditions() -> None:
    store, service = faulty_store()
    unknown = "Unsupported (permanent) at write => service memory doesn't support operation write\n"
    service.fail("write", error=lambda: exceptions.Unsupported(unknown))
    store.probe()
    assert not store.creates_only_once
    assert list(store.list("")) == []


def test_the_probe_leaves_nothing_behind(s3_server: S3Server) -> None:
    store = s3_server.store()
    store.probe()
    assert store.creates_only_once
    assert list(store.list("")) == []


async def test_objects_are_listed_in_a_thread_with_an_event_loop(s3_server: S3Server) -> None:
    store = s3_server.store()
    store.put("d/a", b"x")
    assert [meta.path for meta in store.list("d")] == ["d/a"]


def test_objects_in_parts_arrive_whole(s3_server: S3Server) -> None:
    store = s3_server.store()
    content = bytes(range(256)) * (12 << 12)
    with store.writer("big", buffer_bytes=5 << 20) as sink:
        for start in range(0, len(content), 1_000_000):
            sink.write(content[start : start + 1_000_000])
    assert store.head("big").size_bytes == len(content) > 10 << 20
    assert store.get("big") == content
    store.put("copy", content)
    with store.open_input("copy") as source:
        assert source.read_at(1000, 11_111_111) == content[11_111_111:11_112_111]


def test_an_upload_in_parts_that_fails_is_explained(s3_server: S3Server) -> None:
    content = bytes(12 << 20)
    for changes, kind, message in [
        ({"endpoint": "http://127.0.0.1:1"}, StoreUnreachable, "cannot write to s3://tests/root: send http request"),
        ({"bucket": "nowhere"}, StoreMisconfigured, "s3://nowhere/root: the bucket or container does not exist"),
    ]:
        store = s3_server.store("root", **changes)
        with pytest.raises(kind, match=message) as caught, store.writer("big", buffer_bytes=5 << 20) as sink:
            sink.write(content)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", ["temporary", "persistent"])
def test_an_upload_in_parts_raises_no_error_of_files(status: str) -> None:
    store, service = faulty_store()
    text = (
        f"Unexpected ({status}) at write, context: {{ size: 7 }} => send http request, source: error (http://h?sig=x)"
    )
    service.fail("part", error=lambda: OSError(text))
    with pytest.raises(StoreUnreachable, match="send http request, source: error") as caught:  # noqa: SIM117
        with store.writer("big", buffer_bytes=5 << 20) as sink:
            sink.write(bytes(12 << 20))
    assert "sig" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bucket": "nowhere"}, "s3://nowhere/root: the bucket or container does not exist"),
        ({"endpoint": "http://127.0.0.1:1"}, "Connection refused"),
        ({"access_key_id": "", "secret_access_key": ""}, "the credentials are refused"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(s3_server: S3Server, changes: dict[str, str], message: str) -> None:
    store: RemoteStore = s3_server.store("root", **changes)
    with pytest.raises(StoreError, match=message) as caught:
        store.probe()
    assert "\n" not in str(caught.value)


_S3 = 'S3Error {{ code: "{0}", message: "{0} it is" }}\n\nContext:\n   uri: http://h/b?sig=secret\n'


@pytest.mark.parametrize(
    ("kind", "text", "message", "is_temporary"),
    [
        ("Unexpected", _S3.format("RequestTimeTooSkewed"), "the clock of this machine is wrong", False),
        ("PermissionDenied", _S3.format("SignatureDoesNotMatch"), "the credentials are refused", False),
        ("NotFound", _S3.format("ContainerNotFound"), "the bucket or container does not exist", False),
        ("NotFound", _S3.format("NoSuchBucket"), "the bucket or container does not exist", False),
        ("NotFound", _S3.format("NoSuchKey"), "the object does not exist", False),
        ("RateLimited", _S3.format("SlowDown"), "the service is overloaded (SlowDown)", True),
        ("Unexpected", "response: Parts { status: 503, version: HTTP/1.1 }", "the service is overloaded (503)", True),
        ("Unexpected", _S3.format("InternalError") + "status: 500", "InternalError it is", True),
        ("ConditionNotMatch", _S3.format("PreconditionFailed"), "the object exists already", False),
        ("Unsupported", _S3.format("NotImplemented"), "the service does not support it", False),
        ("Conflict", _S3.format("ConditionalRequestConflict"), "concurrent request", True),
    ],
)
def test_errors_of_services_are_explained(kind: str, text: str, message: str, is_temporary: bool) -> None:
    error = getattr(exceptions, kind)(f"{kind} (permanent) at read => {text}")
    failure = explain(error, action="read from", path="p", place="s3://b")
    assert message in str(failure.error)
    assert failure.is_temporary is is_temporary
    assert "secret" not in str(failure.error)


def test_a_fault_that_is_not_of_the_service_is_not_hidden() -> None:
    store, service = faulty_store()

    def fail(_: str) -> None:
        raise ZeroDivisionError

    service.on_call = fail
    with pytest.raises(ZeroDivisionError):
        store.get("a")
    assert isinstance(service, FaultyOperator)


def test_an_error_does_not_keep_what_its_caller_knows() -> None:
    class Known:
        pass

    store, _ = faulty_store()

    def look() -> weakref.ref[Known]:
        known = Known()
        try:
            store.head("nothing")
        except ObjectNotFound:
            return weakref.ref(known)
        raise AssertionError("there is something")

    gc.disable()
    try:
        found = look()
        assert found() is None
    finally:
        gc.enable()
