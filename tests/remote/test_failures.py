"""Datanodes that are gone, slow, busy or stopping, and clients that leave."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from tests.engine.harness import SCHEMA, batch_of
from tests.remote.world import QUICK, REGION, FakeRoutes, World, open_world, rows_of, wait_until
from tsdb.engine.errors import RegionNotFound, RegionReadOnly
from tsdb.engine.reading import CellsRequest, CellsRun, RunQuery, ScanRequest
from tsdb.errors import Busy, Cancelled, DeadlineExceeded, StartError, Status
from tsdb.model import region_id
from tsdb.remote import NodeUnavailable, OutcomeUnknown, RegionNotOpen, RegionServer, RemoteRegions, RemoteSettings
from tsdb.remote._message import pack, unpack
from tsdb.remote._streams import BROKEN, ClientStream
from tsdb.units import Duration

ROWS = [{"host": "a", "ts": at, "a": 1.0} for at in range(100)]
NOWHERE = "127.0.0.1:1"


@contextmanager
def held(world: World, verb: str, patch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Let a verb of local readers wait: yields an event that it has begun, and one that lets it go on."""
    kind = type(world.engine.open_reader(REGION))
    begun, go_on = threading.Event(), threading.Event()
    verbatim = getattr(kind, verb)

    def wait(self: Any, *args: Any) -> Any:
        begun.set()
        while not go_on.wait(0.01):
            self._check()
        return verbatim(self, *args)

    patch.setattr(kind, verb, wait)
    try:
        yield begun, go_on
    finally:
        go_on.set()


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def test_a_datanode_that_is_not_there(world: World) -> None:
    world.routes.default = NOWHERE
    with pytest.raises(NodeUnavailable, match=r"does not answer: .*\(address: 127.0.0.1:1") as raised:
        world.regions.stat(REGION)
    assert raised.value.status is Status.REGION_NOT_READY
    with pytest.raises(NodeUnavailable):
        world.regions.open_reader(REGION).plan_scan(None)
    with pytest.raises(NodeUnavailable):
        world.regions.write(REGION, batch_of(SCHEMA, ROWS))
    with pytest.raises(NodeUnavailable):
        world.regions.flush(REGION)
    assert world.routes.refreshed == [REGION] * 4


def test_what_is_elsewhere_is_asked_there(world: World) -> None:
    """Reads, writes, changes and questions, each first at a datanode that does not have the region."""
    with open_world_beside(world) as wrong:
        world.put(ROWS)

        def move(region: int) -> bool:
            world.routes.default = world.server.address
            return True

        world.routes.on_refresh = move
        asked: list[Callable[[], Any]] = [
            lambda: len(rows_of(world.regions, ["a"])),
            lambda: world.regions.write(REGION, batch_of(SCHEMA, ROWS)).result(30),
            lambda: world.regions.flush(REGION).result(30),
            lambda: world.regions.stat(REGION).files,
        ]
        assert world.regions.schema(REGION) == SCHEMA
        answers = []
        for ask in asked:
            world.routes.default = wrong
            answers.append(ask())
        assert answers == [100, 100, None, 1]
        assert world.routes.refreshed == [REGION] * 4


@contextmanager
def open_world_beside(world: World) -> Iterator[str]:
    """Serve an engine without the region; yields its address."""
    with open_world(world.root / "beside") as other:
        yield other.server.address


def test_a_region_that_is_nowhere_is_asked_for_once(world: World) -> None:
    gone = region_id(8, 8)
    with pytest.raises(RegionNotFound):
        world.regions.stat(gone)
    with pytest.raises(RegionNotFound):
        world.regions.flush(gone).result(30)
    assert world.routes.refreshed == [gone] * 2


def test_a_write_is_sent_again_to_where_the_region_leads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []
    verbatim = world.engine.write_encoded

    def refuse_once(region: Any, *args: Any, **named: Any) -> Future[int]:
        if not refused:
            refused.append(1)
            raise RegionReadOnly(region_id=region, reason="it leads elsewhere")
        return verbatim(region, *args, **named)

    monkeypatch.setattr(world.engine, "write_encoded", refuse_once)
    world.routes.on_refresh = lambda region: True
    assert world.put(ROWS) == 100
    assert world.routes.refreshed == [REGION]
    refused.clear()
    world.routes.on_refresh = lambda region: False
    with pytest.raises(RegionReadOnly, match="leads elsewhere"):
        world.put(ROWS)


def test_a_region_that_is_open_nowhere_for_a_moment_can_be_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being moved. Clients must not take that for a mistake of theirs: some drop rows that are refused so."""
    with open_world_beside(world) as wrong:
        world.put(ROWS)
        world.routes.has_places = True
        asked: list[Callable[[], Any]] = [
            lambda: rows_of(world.regions, ["a"]),
            lambda: world.regions.write(REGION, batch_of(SCHEMA, ROWS)).result(30),
            lambda: world.regions.flush(REGION).result(30),
            lambda: world.regions.stat(REGION),
        ]
        for is_newer in (False, True):
            world.routes.on_refresh = lambda region, is_newer=is_newer: is_newer
            for ask in asked:
                world.routes.default = world.server.address
                assert world.regions.schema(REGION) == SCHEMA
                world.routes.default = wrong
                with pytest.raises(RegionNotOpen, match="being moved") as refused:
                    ask()
                assert refused.value.status is Status.REGION_NOT_READY
    world.routes.default = world.server.address

    def leave(region: Any, *_: Any, **__: Any) -> Future[int]:
        raise RegionReadOnly(region_id=region, reason="it is being closed here", leads_elsewhere=True)

    monkeypatch.setattr(world.engine, "write_encoded", leave)
    with pytest.raises(RegionNotOpen):
        world.put(ROWS)


def test_readers_that_are_released_by_several_requests_at_once_are_told_of_once(world: World) -> None:
    """Requests of several threads take what the datanode is to be told: one may have taken what another has seen."""

    class Taken(deque[int]):
        """Another thread takes the first one after this thread has looked how many there are."""

        def __len__(self) -> int:
            found = super().__len__()
            if found:
                self.popleft()
            return found

    world.put(ROWS)
    assert len(rows_of(world.regions, ["a"])) == 100
    link = world.regions._links.get(world.server.address)
    link._released = Taken([7, 8, 9])
    assert set(link.take_released()) <= {7, 8, 9}
    link._released = Taken()
    assert link.take_released() == []


@pytest.mark.parametrize("ends", ["the query is cancelled", "its time is over"])
def test_a_stream_that_is_given_back_while_it_is_cancelled_is_not_used_again(
    world: World, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    world.put(ROWS)
    reader: Any = world.regions.open_reader(REGION)
    reader.plan_scan(None)
    link = reader._link
    call = reader._take(link)
    call.stream.give_up_ns = 0
    cancel = ClientStream.cancel
    threads: list[threading.Thread] = []

    def stand_still(stream: ClientStream) -> None:
        # The answer comes at this moment, and the thread that has waited for it gives the stream back, if it can.
        if not threads:
            threads.append(threading.Thread(target=reader._return, args=(link, call), kwargs={"is_read": True}))
            threads[0].start()
            threads[0].join(0.2)
        cancel(stream)

    monkeypatch.setattr(ClientStream, "cancel", stand_still)
    if ends == "the query is cancelled":
        reader.interrupt()
    else:
        link.tick(1)
    threads[0].join()
    assert not any(each.stream.is_cancelled for each in link._idle)
    reader.release()
    assert len(rows_of(world.regions, ["a"])) == 100


def test_readers_that_a_request_could_not_tell_of_are_released_by_another(world: World) -> None:
    world.put(ROWS)
    reader: Any = world.regions.open_reader(REGION)
    reader.plan_scan(None)
    link, number = reader._link, reader._number
    call = reader._take(link)
    link.release(number)
    call.stream.close()
    with pytest.raises(BROKEN):
        call.ask({"op": "statistics"}, [], 0)
    assert list(link._released) in ([number], [])  # the thread that keeps deadlines may have told of it
    wait_until(lambda: len(world.server.readers) == 0)
    reader._return(link, call, is_read=False)
    reader.release()


def test_a_restarted_datanode_is_found_again(world: World) -> None:
    world.put(ROWS)
    assert len(rows_of(world.regions, ["a"])) == 100
    port = int(world.server.address.rpartition(":")[2])
    assert world.server.stop()
    with pytest.raises(NodeUnavailable):
        world.regions.stat(REGION)
    world.server = RegionServer(world.engine, port=port)
    world.server.start()
    assert len(rows_of(world.regions, ["a"])) == 100
    assert world.put(ROWS) == 100


def test_a_reader_does_not_survive_its_datanode(world: World) -> None:
    world.put(ROWS)
    reader = world.regions.open_reader(REGION)
    planned = reader.plan_scan(None)
    port = int(world.server.address.rpartition(":")[2])
    world.server.stop()
    world.server = RegionServer(world.engine, port=port)
    world.server.start()
    with pytest.raises(NodeUnavailable):
        list(reader.scan(ScanRequest(planned.number, 0, ["a"])))
    reader.release()
    assert len(rows_of(world.regions, ["a"])) == 100


def test_a_lost_answer_leaves_the_outcome_unknown_and_nothing_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Future[int]] = []
    begun = threading.Event()

    def never(*args: Any, **named: Any) -> Future[int]:
        sent.append(Future())
        begun.set()
        return sent[-1]

    monkeypatch.setattr(world.engine, "write_encoded", never)
    world.routes.on_refresh = lambda region: True
    done = world.regions.write(REGION, batch_of(SCHEMA, ROWS))
    assert begun.wait(30)
    stopped = in_thread(lambda: world.server.stop(Duration.of_seconds(2)))
    with pytest.raises(OutcomeUnknown, match=r"outcome is unknown.*writing the same rows again is safe"):
        done.result(30)
    stopped.result(30)
    wait_until(lambda: not world.server.streams)
    sent[0].set_result(100)
    assert (len(sent), world.routes.refreshed) == (1, [])


def test_an_answer_that_does_not_come_in_time_is_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.engine, "write_encoded", lambda *args, **named: Future())
    hasty = RemoteRegions(world.routes, settings=RemoteSettings(answer_timeout=Duration.of_seconds(0.2)))
    done = hasty.write(REGION, batch_of(SCHEMA, ROWS), timeout=Duration.of_seconds(0.1))
    with pytest.raises(OutcomeUnknown, match="in time"):
        done.result(30)
    hasty.close()


def test_closing_the_client_ends_what_is_unanswered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.engine, "write_encoded", lambda *args, **named: Future())
    other = RemoteRegions(world.routes)
    done = other.write(REGION, batch_of(SCHEMA, ROWS))
    other.close()
    with pytest.raises(OutcomeUnknown):
        done.result(30)
    with pytest.raises(Cancelled):
        other.stat(REGION)


def test_too_many_unanswered_writes_wait_and_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Future[int]] = []

    def later(*args: Any, **named: Any) -> Future[int]:
        answers.append(Future())
        return answers[-1]

    monkeypatch.setattr(world.engine, "write_encoded", later)
    narrow = RemoteRegions(world.routes, settings=RemoteSettings(changes_in_flight_max=2))
    batch = batch_of(SCHEMA, ROWS)
    sent = [narrow.write(REGION, batch) for _ in range(2)]
    with pytest.raises(Busy, match="too many writes"):
        narrow.write(REGION, batch, timeout=Duration.of_seconds(0.05))
    wait_until(lambda: len(answers) == 2)
    for number in (1, 0):  # in any order
        answers[number].set_result(number)
    assert [done.result(30) for done in sent] == [0, 1]
    third = narrow.write(REGION, batch)
    wait_until(lambda: len(answers) == 3)
    answers[2].set_result(7)
    assert third.result(30) == 7
    narrow.close()


def test_a_cancelled_query_stops_waiting_and_computing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(ROWS)
    reader = world.regions.open_reader(REGION)
    with held(world, "bounds", monkeypatch) as (begun, _):
        waiting = in_thread(lambda: reader.bounds(None))
        assert begun.wait(30)
        reader.interrupt()
        with pytest.raises(Cancelled):
            waiting.result(30)
        wait_until(lambda: world.server._slots.running == 0)
        wait_until(lambda: len(world.server.readers) == 0)
    reader.release()
    with pytest.raises(Cancelled):
        reader.bounds(None)


def test_a_deadline_is_kept_on_both_sides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(ROWS)
    reader = world.regions.open_reader(REGION, timeout=Duration.of_seconds(0.3))
    with held(world, "bounds", monkeypatch) as (begun, _):
        with pytest.raises((DeadlineExceeded, Cancelled)):
            reader.bounds(None)
        assert begun.is_set()
        wait_until(lambda: world.server._slots.running == 0)
    reader.release()


def test_a_query_that_is_over_asks_nothing(world: World) -> None:
    class Over(Exception):
        pass

    def check() -> None:
        raise Over

    reader = world.regions.open_reader(REGION, check=check)
    with pytest.raises(Over):
        reader.plan_scan(None)
    reader.release()
    assert len(world.server.readers) == 0


def test_no_more_requests_compute_than_there_are_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_world(tmp_path, threads_max=2) as world:
        world.create()
        running, most, lock = [0], [0], threading.Lock()
        verbatim = world.engine.stat

        def count(region: Any) -> Any:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.01)
            with lock:
                running[0] -= 1
            return verbatim(region)

        monkeypatch.setattr(world.engine, "stat", count)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: world.regions.stat(REGION), range(40)))
        assert most[0] == 2


def test_a_request_that_finds_no_slot_before_its_deadline_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_world(tmp_path, threads_max=1) as world:
        world.create()
        world.put(ROWS)
        reader = world.regions.open_reader(REGION)
        with held(world, "bounds", monkeypatch) as (begun, go_on):
            waiting = in_thread(lambda: reader.bounds(None))
            assert begun.wait(30)
            hasty = world.regions.open_reader(REGION, timeout=Duration.of_seconds(0.2))
            with pytest.raises(Busy, match=r"busy with 1 other requests.*rpc_runtime_size") as raised:
                hasty.plan_scan(None)
            assert raised.value.retry_after_seconds == 1
            go_on.set()
            assert waiting.result(30) is not None
        assert reader.plan_scan(None).shares == 1
        reader.release()


def test_a_client_that_leaves_frees_its_readers(world: World) -> None:
    world.put(ROWS)
    for leave in (lambda left: left.close(), lambda left: None):
        left = RemoteRegions(world.routes)
        readers = [left.open_reader(REGION) for _ in range(3)]
        assert [reader.plan_scan(None).shares for reader in readers] == [1] * 3
        assert len(world.server.readers) == 3
        if leave(left) is None and left._links._links:
            for link in left._links._links.values():
                link.changes.stream.cancel()  # as if the process had ended
        wait_until(lambda: len(world.server.readers) == 0)
        left.close()


def test_a_reader_that_is_not_released_ends_with_its_time(world: World) -> None:
    reader = world.regions.open_reader(REGION, timeout=Duration.of_seconds(0.1))
    reader.plan_scan(None)
    local = next(iter(world.server.readers._held.values())).reader
    world.server.readers._held[next(iter(world.server.readers._held))].expires_ns = 0
    wait_until(lambda: len(world.server.readers) == 0)
    assert local.is_released  # type: ignore[attr-defined]
    reader.release()


def test_a_released_reader_is_released_there_soon(world: World) -> None:
    reader = world.regions.open_reader(REGION)
    reader.plan_scan(None)
    assert len(world.server.readers) == 1
    reader.release()
    reader.release()
    wait_until(lambda: len(world.server.readers) == 0)


def scanned(world: World, counts: list[int], patch: pytest.MonkeyPatch, batches: int) -> Any:
    """Let a scan give large batches, and count those that were made."""
    kind = type(world.engine.open_reader(REGION))
    batch = pa.record_batch({"a": pa.array([1.0] * 100_000)})

    def scan(self: Any, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        for _ in range(batches):
            counts[0] += 1
            yield batch

    patch.setattr(kind, "scan", scan)
    reader = world.regions.open_reader(REGION)
    return reader, reader.scan(ScanRequest(reader.plan_scan(None).number, 0, ["a"]))


def test_a_slow_reader_is_not_sent_more_than_a_few_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0]
    reader, batches = scanned(world, made, monkeypatch, 50)
    for taken in range(1, 11):
        assert next(batches).num_rows == 100_000
        time.sleep(0.01)
        assert made[0] <= taken + 3
    batches.close()
    wait_until(lambda: world.server._slots.running == 0)
    assert made[0] <= 14
    reader.release()
    wait_until(lambda: len(world.server.readers) == 0)
    assert world.regions.stat(REGION).files == 0


def test_a_scan_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0]
    reader, batches = scanned(world, made, monkeypatch, 50)
    assert sum(batch.num_rows for batch in batches) == 50 * 100_000
    assert reader.bounds(None) is None, "what was asked for beyond the end is no request"
    reader.release()


def test_an_error_in_the_middle_of_a_scan_is_raised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(world.engine.open_reader(REGION))

    def scan(self: Any, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1.0]})
        raise Busy("for once")

    monkeypatch.setattr(kind, "scan", scan)
    reader = world.regions.open_reader(REGION)
    batches = reader.scan(ScanRequest(reader.plan_scan(None).number, 0, ["a"]))
    assert next(batches).num_rows == 1
    with pytest.raises(Busy, match="for once"):
        next(batches)
    reader.release()


def test_a_server_that_stops_ends_streams_that_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0]
    reader, batches = scanned(world, made, monkeypatch, 1_000_000)
    next(batches)
    assert world.server.stop(Duration.of_seconds(1)) or not world.server.streams
    with pytest.raises((NodeUnavailable, Cancelled)):
        for _ in batches:
            pass
    reader.release()


def test_many_threads(world: World) -> None:
    world.put(ROWS)
    schema = world.regions.schema(REGION)
    query = CellsRequest(None, RunQuery(("host",), states={"a": ("sum",)}))

    def work(number: int) -> tuple[int, int, float]:
        written = world.regions.write(REGION, batch_of(schema, [{"host": f"w{number}", "ts": number, "a": 1.0}]))
        reader = world.regions.open_reader(REGION)
        try:
            planned = reader.plan_cells(query)
            found = reader.cells(CellsRun(planned.number))
            assert found.cells is not None
            rows = sum(batch.num_rows for batch in reader.scan(ScanRequest(reader.plan_scan(None).number, 0, ["a"])))
            return written.result(30), rows, float(found.cells.states["a", "sum"][0])
        finally:
            reader.release()

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(work, range(60)))
    assert all(written == 1 and 100 <= rows <= 160 and total == 100.0 for written, rows, total in found)
    assert len(rows_of(world.regions, ["a"])) == 160
    wait_until(lambda: len(world.server.readers) == 0)


def test_shares_of_a_scan_are_read_by_several_threads(world: World) -> None:
    world.put(ROWS)
    reader = world.regions.open_reader(REGION)
    planned = reader.plan_scan(None)
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(
            lambda _: sum(b.num_rows for b in reader.scan(ScanRequest(planned.number, 0, ["a"]))), range(40)
        )
        assert list(counts) == [100] * 40
    reader.release()


def test_streams_are_bounded(tmp_path: Path) -> None:
    with open_world(tmp_path, settings=RemoteSettings(call_streams_max=2), streams_max=8) as world:
        world.create()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: world.regions.stat(REGION), range(100)))
        assert world.server.streams <= 3
        others = [RemoteRegions(FakeRoutes(world.server.address), settings=QUICK) for _ in range(5)]
        with pytest.raises(Busy, match="too many streams"):
            [other.stat(REGION) for other in others]
        for other in others:
            other.close()


@pytest.mark.parametrize("message", [b"GET / HTTP/1.1", b"TSR\x02" + bytes(20), pack(["no", "head"]), pack({})])
def test_what_is_no_client_is_told_and_harms_nobody(world: World, message: bytes) -> None:
    client = flight.FlightClient(f"grpc://{world.server.address}")
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"calls"))
    writer.write_metadata(message)
    head, _ = unpack(reader.read_chunk().app_metadata)
    assert "error" in head
    writer.close()
    client.close()
    assert world.put(ROWS) == 100


def test_another_version_of_the_protocol_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = RemoteRegions(FakeRoutes(world.server.address))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsdb.remote._message.PROTOCOL_VERSION", 9)
        hello = pack({"hello": "changes"})
    monkeypatch.setattr("tsdb.remote._streams.pack", lambda head, buffers=(): hello if "hello" in head else pack(head))
    with pytest.raises(Exception, match="version 9 of the region protocol, this process speaks version 1"):
        stranger.stat(REGION)
    stranger.close()


def test_an_address_that_is_taken_is_said(world: World) -> None:
    host, _, port = world.server.address.rpartition(":")
    with pytest.raises(StartError, match="cannot be used"):
        RegionServer(world.engine, host=host, port=int(port)).start()


def test_a_request_without_a_verb_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="no verb"):
        world.regions.open_reader(REGION)._ask("shutdown")
    assert world.put(ROWS) == 100
