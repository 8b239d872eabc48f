"""Advisory locks: connections take turns, without keeping a thread while they wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.servers.postgres.running import RunningServer, error_field, query
from tsdb.errors import Busy
from tsdb.query import advisory_locks
from tsdb.query.advisory_locks import AdvisoryLocks, SessionLocks

WAIT_SECONDS_MAX = 30.0


def ask(connection: psycopg.Connection[tuple[object, ...]], text: str, *values: object) -> object:
    row = connection.execute(text, values).fetchone()
    assert row is not None
    return row[0]


def in_background(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Run a call on a thread; the list gets its result or its error."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call())
        except psycopg.Error as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, results


def test_a_lock_is_held_until_it_is_unlocked_as_often_as_it_was_taken(pg: RunningServer) -> None:
    with pg.connect() as one, pg.connect() as two:
        assert ask(one, "SELECT pg_advisory_lock(11)") == ""
        assert ask(one, "SELECT pg_try_advisory_lock(%s)", 11) is True
        assert ask(two, "SELECT pg_try_advisory_lock(%s)", 11) is False
        assert ask(two, "SELECT pg_advisory_unlock(11)") is False
        assert ask(one, "SELECT pg_advisory_unlock(11)") is True
        assert ask(two, "SELECT pg_try_advisory_lock(11)") is False
        assert ask(one, "SELECT pg_advisory_unlock(11)") is True
        assert ask(two, "SELECT pg_try_advisory_lock(11)") is True
        assert ask(two, "SELECT pg_try_advisory_lock(-5705450890675909945)") is True
        two.execute("SELECT pg_advisory_unlock_all()")
        assert ask(one, "SELECT pg_try_advisory_lock(11)") is True
        assert ask(one, "SELECT pg_try_advisory_lock(-5705450890675909945)") is True
        one.execute("DISCARD ALL")
        assert ask(two, "SELECT pg_try_advisory_lock(11)") is True


def test_the_lock_of_a_transaction_ends_with_it_and_that_of_a_session_with_the_connection(pg: RunningServer) -> None:
    with pg.connect() as two:
        with pg.connect() as one:
            one.execute("BEGIN")
            one.execute("SELECT pg_advisory_xact_lock(12)")
            one.execute("SELECT pg_advisory_lock(13)")
            assert ask(two, "SELECT pg_try_advisory_xact_lock(12)") is False
            one.execute("SAVEPOINT s")
            one.execute("RELEASE SAVEPOINT s")
            assert ask(two, "SELECT pg_try_advisory_xact_lock(12)") is False
            one.execute("COMMIT")
            assert ask(two, "SELECT pg_try_advisory_xact_lock(12)") is True
            assert ask(one, "SELECT pg_try_advisory_xact_lock(12)") is True, "outside of a transaction it ends at once"
            assert ask(two, "SELECT pg_try_advisory_lock(13)") is False
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not ask(two, "SELECT pg_try_advisory_lock(13)"):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize(
    "text", ["SELECT 'x', pg_advisory_lock(16), pg_advisory_lock({0})", "SELECT pg_advisory_lock({0})"]
)
def test_many_that_wait_get_the_lock_one_after_the_other(pg: RunningServer, text: str) -> None:
    """More connections wait than the server has threads for statements."""
    held: list[int] = []

    def take(number: int) -> None:
        with pg.connect() as connection:
            connection.execute(text.format(14))
            held.append(number)
            assert len(held) == 1
            held.remove(number)
            connection.execute("SELECT pg_advisory_unlock(14)")
            if "16" in text:
                assert ask(connection, "SELECT pg_advisory_unlock(16)") is True
                assert ask(connection, "SELECT pg_advisory_unlock(16)") is False, (
                    "the repeated statement locked it once"
                )

    with pg.connect() as holder:
        holder.execute("SELECT pg_advisory_lock(14)")
        waiting = [in_background(lambda number=number: take(number)) for number in range(10)]  # type: ignore[misc]
        time.sleep(0.3)
        assert ask(holder, "SELECT count(*) FROM counted") == 1000
        assert all(thread.is_alive() for thread, _ in waiting)
        holder.execute("SELECT pg_advisory_unlock(14)")
        for thread, results in waiting:
            thread.join(WAIT_SECONDS_MAX)
            assert results == [None]


def test_a_wait_ends_with_the_timeout_of_the_statement_and_with_a_cancel_request(pg: RunningServer) -> None:
    with pg.connect() as holder, pg.connect() as other:
        holder.execute("SELECT pg_advisory_lock(15)")
        other.execute("SET statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT pg_advisory_lock(15)")
        with pg.raw() as client, pg.raw() as stopper:
            key = next(body for tag, body in client.log_in() if tag == "K")
            client.socket.sendall(query("SELECT pg_advisory_lock(15)"))
            time.sleep(0.2)
            stopper.send_startup(80877102, key)
            found = client.read_until("Z")
            assert error_field(found[-2][1], "C") == "57014"
            client.socket.sendall(query("SELECT 1"))
            assert [tag for tag, _ in client.read_until("Z")] == ["T", "D", "C", "Z"]


def test_there_is_a_bound_on_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisory_locks, "LOCKS_MAX", 2)
    server = AdvisoryLocks()
    one, two = SessionLocks(server), SessionLocks(server)
    assert one.take(1, is_transaction=False)
    assert two.take(2, is_transaction=True)
    with pytest.raises(Busy):
        one.take(3, is_transaction=False)
    assert one.take(1, is_transaction=True), "it has that one"
    one.close()
    assert two.take(3, is_transaction=False)
    two.close()
    assert not server.owners
