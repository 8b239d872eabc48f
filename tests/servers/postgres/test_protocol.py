"""The protocol message by message: what a client may rely on, and what happens to one that does not keep to it."""

from __future__ import annotations

import struct
import threading
import time
from pathlib import Path

import pytest
from psycopg import errors

from tests.servers.postgres.running import (
    RunningServer,
    bind,
    close,
    describe,
    error_field,
    execute,
    message,
    parse,
    query,
    running_server,
)
from tsdb.servers.postgres._tuning import PostgresTuning
from tsdb.units import Duration


def _tags(found: list[tuple[str, bytes]]) -> str:
    return "".join(tag for tag, _ in found)


def _bodies(found: list[tuple[str, bytes]], tag: str) -> list[bytes]:
    return [body for each, body in found if each == tag]


def test_a_client_is_told_settings_and_its_key_before_it_may_ask(pg: RunningServer) -> None:
    with pg.raw() as client:
        found = client.log_in(application_name="mine")
        assert _tags(found).startswith("RS")
        assert _tags(found).endswith("SKZ")
        told = dict(body[:-1].split(b"\0") for body in _bodies(found, "S"))
        assert told[b"server_version"] == b"16.3-tsdb-9.9.9"
        assert told[b"standard_conforming_strings"] == b"on"
        assert told[b"DateStyle"] == b"ISO, MDY"
        assert (told[b"TimeZone"], told[b"client_encoding"], told[b"application_name"]) == (b"UTC", b"UTF8", b"mine")


def test_an_empty_query_and_several_statements_are_answered_one_by_one(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        client.send("Q", b" ; \0")
        assert _tags(client.read_until("Z")) == "IZ"
        client.send("Q", b"SELECT 1; SELECT 2; SELECT * FROM nope; SELECT 3\0")
        found = client.read_until("Z")
        assert _tags(found) == "TDCTDCEZ"
        assert _bodies(found, "C") == [b"SELECT 1\0", b"SELECT 1\0"]


def test_the_status_byte_follows_begin_error_and_end(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        for text, status in [
            ("BEGIN", b"T"),
            ("SELECT 1", b"T"),
            ("SELECT * FROM nope", b"E"),
            ("ROLLBACK", b"I"),
            ("START TRANSACTION", b"T"),
            ("SAVEPOINT s", b"T"),
            ("SELECT * FROM nope", b"E"),
            ("ROLLBACK TO SAVEPOINT s", b"T"),
            ("COMMIT", b"I"),
        ]:
            client.socket.sendall(query(text))
            assert client.read_until("Z")[-1] == ("Z", status), text


def test_after_an_error_everything_up_to_sync_is_passed_over(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        found = client.ask(parse("SELECT 1"), bind(), parse("SELECTX"), bind(), execute(), close("S"))
        assert _tags(found) == "12EZ"
        assert _tags(client.ask(parse("SELECT 1"), bind(), describe("P"), execute())) == "12TDCZ"


def test_messages_of_several_syncs_may_come_at_once(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        one = parse("SELECT $1::int8", types=(20,)) + bind(b"7") + execute() + message("S")
        client.socket.sendall(one * 3 + query("SELECT 1"))
        found = [client.read_until("Z") for _ in range(4)]
        assert [_tags(each) for each in found] == ["12DCZ"] * 3 + ["TDCZ"]


def test_flush_sends_what_is_there_without_ending_anything(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(parse("SELECT 1", name="s") + describe("S", "s") + message("H"))
        assert _tags(client.read_until("T")) == "1tT"
        assert _tags(client.ask(bind(name="s"), execute())) == "2DCZ"


def test_portals_give_as_many_rows_as_are_wanted_until_their_transaction_ends(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("BEGIN"))
        client.read_until("Z")
        found = client.ask(parse("SELECT i FROM counted ORDER BY i"), bind(portal="p"), execute("p", 3))
        assert _tags(found) == "12DDDsZ"
        assert _tags(client.ask(execute("p", 2))) == "DDsZ"
        rest = client.ask(execute("p"))
        assert _bodies(rest, "C") == [b"SELECT 995\0"]
        client.socket.sendall(query("COMMIT"))
        client.read_until("Z")
        assert error_field(client.ask(execute("p"))[0][1], "C") == "34000"


def test_statements_are_described_without_being_run(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        text = "INSERT INTO counted VALUES ($1, $2, $3)"
        found = client.ask(parse(text, name="w"), describe("S", "w"))
        assert _tags(found) == "1tnZ"
        assert struct.unpack("!H3I", found[1][1]) == (3, 1043, 20, 1114)
        found = client.ask(parse("SELECT i, k FROM counted WHERE k = $1 LIMIT $2", name="r"), describe("S", "r"))
        assert _tags(found) == "1tTZ"
        assert found[2][1].startswith(b"\0\x02i\0")
        assert _tags(client.ask(close("S", "r"), close("S", "r"), describe("S", "r"))) == "33EZ"


def test_named_statements_and_portals_are_made_once(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        assert error_field(client.ask(parse("SELECT 1", name="a"), parse("SELECT 2", name="a"))[1][1], "C") == "42P05"
        assert error_field(client.ask(bind(name="a", portal="p"), bind(name="a", portal="p"))[1][1], "C") == "42P03"
        assert error_field(client.ask(bind(name="none"))[0][1], "C") == "26000"
        assert error_field(client.ask(parse("SELECT 1; SELECT 2"))[0][1], "C") == "42601"
        assert error_field(client.ask(bind(b"1", name="a"))[0][1], "C") == "08P01"


def test_an_answer_is_sent_in_the_format_that_was_asked_for(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        found = client.ask(
            parse("SELECT CAST(258 AS INT) AS a, 'x' AS b"), bind(results=(1, 0)), describe("P"), execute()
        )
        assert _bodies(found, "D") == [struct.pack("!hii", 2, 4, 258) + struct.pack("!i", 1) + b"x"]
        assert found[2][1].endswith(b"\0\0")
        assert error_field(client.ask(bind(results=(2,)), execute())[1][1], "C") == "08P01"


def test_settings_that_change_are_told_again(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in(options="-c timezone=Asia/Shanghai")
        client.socket.sendall(query("SET TIME ZONE 'Europe/Berlin'; SET DateStyle TO 'SQL, DMY'"))
        assert _bodies(client.read_until("Z"), "S") == [b"TimeZone\0Europe/Berlin\0", b"DateStyle\0SQL, DMY\0"]
        client.socket.sendall(query("SELECT TIMESTAMP '2024-01-30 12:00:00' AS t"))
        assert b"30/01/2024 12:00:00.000000" in _bodies(client.read_until("Z"), "D")[0]
        client.socket.sendall(query("RESET ALL"))
        assert _bodies(client.read_until("Z"), "S") == [b"DateStyle\0ISO, MDY\0", b"TimeZone\0Asia/Shanghai\0"]
        client.socket.sendall(query("SET made_up = 1"))
        found = client.read_until("Z")
        assert _tags(found) == "NCZ"
        assert error_field(found[0][1], "S") == "WARNING"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("intervalstyle = postgres", "1 year 2 mons 3 days 04:05:06.5"),
        ("intervalstyle = postgres_verbose", "@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs"),
        ("intervalstyle = sql_standard", "+1-2 +3 +4:05:06.5"),
        ("intervalstyle = iso_8601", "P1Y2M3DT4H5M6.5S"),
    ],
)
def test_intervals_look_as_a_session_wants(pg: RunningServer, setting: str, text: str) -> None:
    with pg.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET {setting}")
        cursor.execute("SELECT interval '14 months 3 days 4 hours 5 minutes 6.5 seconds' AS i")
        assert cursor.pgresult is not None
        assert cursor.pgresult.get_value(0, 0) == text.encode()


def test_pool_reset_and_discard_are_accepted(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"))
        assert _bodies(client.read_until("Z"), "C") == [b"SELECT 1\0", b"CLOSE CURSOR\0", b"UNLISTEN\0", b"RESET\0"]
        client.ask(parse("SELECT 1", name="kept"))
        client.socket.sendall(query("DISCARD ALL"))
        assert _tags(client.read_until("Z")) == "CZ"
        assert error_field(client.ask(bind(name="kept"))[0][1], "C") == "26000"


def test_a_cancel_request_with_the_secret_stops_a_statement(pg: RunningServer) -> None:
    with pg.raw() as client, pg.raw() as other:
        key = next(body for tag, body in client.log_in() if tag == "K")
        client.socket.sendall(query(_SLOW))
        _wait_running(pg, _SLOW)
        with pg.raw() as stranger:
            stranger.send_startup(80877102, key[:4] + b"none")
            assert stranger.read() == ("", b"")
        other.send_startup(80877102, key)
        found = client.read_until("Z")
        assert error_field(found[-2][1], "C") == "57014"


def test_connections_are_listed_whether_they_run_something_or_not(pg: RunningServer) -> None:
    text = "SELECT pid, state, query, usename FROM pg_stat_activity WHERE application_name = 'listed'"
    with pg.raw() as client, pg.connect() as other:
        key = next(body for tag, body in client.log_in(application_name="listed") if tag == "K")
        number = struct.unpack("!i", key[:4])[0]
        assert other.execute(text).fetchall() == [(number, "idle", "", "me")]
        listed = other.execute(f"SHOW PROCESSLIST WHERE \"Id\" = '{number}'".encode()).fetchall()
        assert [(row[0], row[2]) for row in listed] == [(str(number), "Sleep")]
        client.socket.sendall(query(_SLOW))
        _wait_running(pg, _SLOW)
        assert other.execute(text).fetchall() == [(number, "active", _SLOW, "me")]
        other.execute(f"KILL {number}".encode())
        client.read_until("Z")
    with pg.connect() as other:
        deadline = time.monotonic() + 20
        while other.execute(text).fetchall():
            assert time.monotonic() < deadline


def test_what_nobody_wants_any_more_is_no_error_of_the_server(
    pg: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"), pg.raw() as client, pg.connect() as other:
        key = next(body for tag, body in client.log_in() if tag == "K")
        client.socket.sendall(query(_SLOW))
        _wait_running(pg, _SLOW)
        other.execute(f"KILL {struct.unpack('!i', key[:4])[0]}".encode())
        found = client.read_until("Z")
        assert error_field(next(body for tag, body in found if tag == "E"), "C") == "57014"
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_kill_stops_the_statement_of_another_connection(pg: RunningServer) -> None:
    with pg.raw() as client, pg.connect() as other:
        key = next(body for tag, body in client.log_in() if tag == "K")
        client.socket.sendall(query(_SLOW))
        _wait_running(pg, _SLOW)
        other.execute(f"KILL {struct.unpack('!i', key[:4])[0]}".encode())
        assert error_field(client.read_until("Z")[-2][1], "C") == "57014"


def test_a_client_that_goes_away_has_its_statement_stopped(pg: RunningServer) -> None:
    client = pg.raw()
    client.log_in()
    client.socket.sendall(query(_SLOW))
    _wait_running(pg, _SLOW)
    client.socket.close()
    deadline = time.monotonic() + 60
    while any(_SLOW in each.text for each in pg.database.services.processes.all() if not each.is_finishing):
        assert time.monotonic() < deadline, "the statement goes on"
        threading.Event().wait(0.01)


_SLOW = "SELECT count(*) FROM generate_series(1, 100000000000) AS slow"


def _wait_running(pg: RunningServer, text: str) -> None:
    deadline = time.monotonic() + 20
    while not any(text in each.text for each in pg.database.services.processes.all()):
        assert time.monotonic() < deadline, "the statement does not run"
        threading.Event().wait(0.01)


def test_a_statement_timeout_ends_a_statement(pg: RunningServer) -> None:
    with pg.connect() as connection:
        connection.execute("SET statement_timeout = '50ms'")
        with pytest.raises(errors.QueryCanceled):
            connection.execute(_SLOW)
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_database_that_is_not_there_is_refused_unless_it_is_the_name_of_the_user(pg: RunningServer) -> None:
    with pg.raw() as client:
        found = client.log_in(database="nope")
        assert (error_field(found[-1][1], "S"), error_field(found[-1][1], "C")) == ("FATAL", "3D000")
    for name in ("me", "tsdb", "postgres", "tsdb-public"):
        with pg.connect(dbname=name) as connection:
            assert connection.execute("SELECT current_schema()").fetchone() == ("public",)


def test_a_time_zone_that_is_not_there_is_refused(pg: RunningServer) -> None:
    with pg.raw() as client:
        assert error_field(client.log_in(TimeZone="Mars/Olympus")[-1][1], "C") == "22023"


def test_requests_for_encryption_are_declined_where_there_is_none(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.send_startup(80877104)
        assert client.read_byte() == b"N"
        client.send_startup(80877103)
        assert client.read_byte() == b"N"
        assert client.log_in()[-1] == ("Z", b"I")


def test_a_newer_minor_version_is_negotiated_and_another_major_one_refused(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.send_startup(196610, b"user\0me\0database\0public\0_pq_.x\0y\0\0")
        assert client.read_until("Z")[0] == ("v", struct.pack("!ii", 196608, 1) + b"_pq_.x\0")
    with pg.raw() as client:
        client.send_startup(2 << 16, b"user\0me\0\0")
        assert error_field(client.read()[1], "C") == "0A000"


@pytest.mark.parametrize(
    "sent", [message("?"), b"Q\x00\x00\x00\x01", b"Q\x7f\xff\xff\xff", message("p", b"x\0"), b"\x16\x03\x01\x02\x00"]
)
def test_what_is_no_message_ends_the_connection_with_a_reason(pg: RunningServer, sent: bytes) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(sent)
        found = client.read_until("")
        assert (error_field(found[-2][1], "S"), error_field(found[-2][1], "C")) == ("FATAL", "08P01")


def test_bodies_that_cannot_be_read_are_errors_the_connection_survives(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        for sent in (
            message("P", b"x"),
            message("B", b"\0\0\x00\x05"),
            message("D", b"X\0"),
            message("E"),
            message("C"),
        ):
            assert error_field(client.ask(sent)[0][1], "C") == "08P01"
        client.send("Q", b"no zero byte")
        assert error_field(client.read_until("Z")[0][1], "C") == "08P01"
        client.send("Q", b"SELECT '\xff'\0")
        assert _tags(client.read_until("Z")) == "EZ"
        assert _tags(client.ask(message("F", b"\0\0\0\0"))) == "EZ"


def test_a_message_that_comes_byte_by_byte_is_cut(tmp_path: Path) -> None:
    with running_server(tmp_path, tuning=PostgresTuning(message_seconds=0.2, login_seconds_max=0.3)) as running:
        with running.raw() as client:
            client.log_in()
            client.socket.sendall(b"Q\x00\x00\x00\x20SEL")
            assert error_field(client.read()[1], "S") == "FATAL"
        with running.raw() as client:
            client.socket.sendall(b"\x00\x00")
            assert error_field(client.read()[1], "M") == "the login took too long"


def test_a_silent_connection_is_closed_with_the_reason(tmp_path: Path) -> None:
    with running_server(tmp_path, idle_timeout=Duration.parse("100ms")) as running, running.raw() as client:
        client.log_in()
        assert error_field(client.read()[1], "C") == "57P05"
        assert client.read() == ("", b"")


def test_clients_over_the_limit_are_told_so(tmp_path: Path) -> None:
    with running_server(tmp_path, connections_max=2) as running:
        with running.raw() as first, running.raw() as second, running.raw() as third:
            first.log_in()
            second.log_in()
            assert error_field(third.log_in()[-1][1], "C") == "53300"
        with running.connect() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_idle_clients_hear_that_the_server_stops(tmp_path: Path) -> None:
    with running_server(tmp_path) as running:
        client = running.raw()
        client.log_in()
    found = client.read_until("")
    client.socket.close()
    assert error_field(found[0][1], "C") == "57P01"


def test_a_large_answer_waits_for_a_client_that_reads_slowly(pg: RunningServer) -> None:
    with pg.raw() as client:
        client.log_in()
        client.socket.sendall(query("SELECT a.i, b.k, 'some text that takes room' AS t FROM counted a, counted b"))
        size, last = 0, b""
        while not last.endswith(b"SELECT 1000000\0Z\0\0\0\5I"):
            piece = client.socket.recv(1 << 20)
            assert piece, "the server has closed the connection"
            size, last = size + len(piece), (last + piece)[-64:]
        assert size > 40_000_000
