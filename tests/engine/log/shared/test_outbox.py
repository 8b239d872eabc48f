"""When objects are sent, what goes into them, and when they are acknowledged."""

from __future__ import annotations

from concurrent.futures import Future

from tsdb.engine.log import Frame, encode_frame_payload
from tsdb.engine.log.shared.outbox import Append, Outbox

INTERVAL = 100


def make_outbox(*, batch_bytes_max: int = 1000, in_flight_max: int = 2, burst: int = 2) -> Outbox:
    return Outbox(interval_ns=INTERVAL, batch_bytes_max=batch_bytes_max, in_flight_max=in_flight_max, burst=burst)


def add(outbox: Outbox, now: int, size: int = 8, after: Future[None] | None = None) -> Append:
    append = Append([Frame(1, 1, encode_frame_payload(bytes(size)))], after)
    outbox.add(append, now)
    return append


def test_a_write_that_is_alone_is_sent_at_once_as_long_as_the_budget_lasts() -> None:
    outbox = make_outbox()
    for number in range(2):
        add(outbox, 0)
        assert outbox.wait_ns(0) == 0
        assert outbox.take(0).number == number
        outbox.stored(number)
    add(outbox, 0)
    assert outbox.wait_ns(0) == INTERVAL
    assert outbox.wait_ns(60) == 40
    assert outbox.wait_ns(INTERVAL) == 0
    outbox.stored(outbox.take(INTERVAL).number)
    # The budget comes back with time.
    for _ in range(2):
        add(outbox, 10 * INTERVAL)
        assert outbox.wait_ns(10 * INTERVAL) == 0
        outbox.stored(outbox.take(10 * INTERVAL).number)


def test_what_arrives_while_an_object_is_on_its_way_goes_together() -> None:
    outbox = make_outbox()
    add(outbox, 0)
    outbox.take(0)
    appends = [add(outbox, at) for at in range(1, 6)]
    assert outbox.wait_ns(10) == INTERVAL - 10
    assert outbox.take(INTERVAL).appends == appends
    assert outbox.wait_ns(10 * INTERVAL) is None, "nothing waits"
    add(outbox, INTERVAL)
    assert outbox.wait_ns(10 * INTERVAL) is None, "as many as allowed are on their way"


def test_many_bytes_do_not_wait_and_are_divided() -> None:
    outbox = make_outbox(batch_bytes_max=300)
    add(outbox, 0)
    outbox.take(0)
    large = [add(outbox, 0, size=100) for _ in range(3)]
    assert outbox.wait_ns(0) == 0
    assert outbox.take(0).appends == large[:1], "two of 168 bytes do not fit into 300"
    assert outbox.appends[-2:] == large[1:]


def test_objects_are_acknowledged_in_order() -> None:
    outbox = make_outbox(in_flight_max=3)
    for at in range(3):
        add(outbox, at * INTERVAL)
        outbox.take(at * INTERVAL)
    assert outbox.stored(2) == []
    assert outbox.stored(1) == []
    assert outbox.acknowledged == 0
    assert [each.number for each in outbox.stored(0)] == [0, 1, 2]
    assert (outbox.acknowledged, outbox.unshipped_bytes, outbox.is_empty) == (3, 0, True)


def test_entries_wait_for_the_local_log_and_are_forgotten_if_that_refuses_them() -> None:
    outbox = make_outbox()
    first, second, third = (Future[None]() for _ in range(3))
    appends = [add(outbox, 0, after=each) for each in (first, second, third)]
    third.set_result(None)
    assert outbox.wait_ns(0) is None, "the first is not there yet"
    first.set_exception(OSError())
    second.set_result(None)
    assert outbox.wait_ns(0) == 0
    assert outbox.take(0).appends == appends[1:]
    assert outbox.unshipped_bytes == sum(each.size_bytes for each in appends[1:])


def test_from_a_fence_on_everything_is_given_up() -> None:
    outbox = make_outbox(in_flight_max=3)
    appends = []
    for at in range(3):
        appends.append(add(outbox, at * INTERVAL))
        outbox.take(at * INTERVAL)
    waiting = add(outbox, 0)
    outbox.stored(2)
    assert outbox.cut(1) == [*appends[1:], waiting]
    assert [each.appends for each in outbox.stored(0)] == [appends[:1]]
    assert outbox.is_empty
