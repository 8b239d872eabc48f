"""Cursors that go back: psycopg's scrollable cursors, and every direction of FETCH and MOVE."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.servers.postgres.running import RunningServer
from tsdb.database.sessions import cursors


def _scrolled(pg: RunningServer, **options: Any) -> Any:
    connection = pg.connect()
    return connection, connection.cursor("scrolled", scrollable=True, **options)


def test_psycopg_scrollable_cursors_go_back_and_to_any_row(pg: RunningServer) -> None:
    connection, cursor = _scrolled(pg)
    with connection, connection.transaction(), cursor:
        cursor.execute("SELECT i FROM counted WHERE i < 100 ORDER BY i")
        assert [row[0] for row in cursor.fetchmany(3)] == [0, 1, 2]
        cursor.scroll(-2)
        assert cursor.fetchone() == (1,)
        cursor.scroll(50, mode="absolute")
        assert [row[0] for row in cursor.fetchmany(2)] == [50, 51]
        cursor.scroll(0, mode="absolute")
        assert len(cursor.fetchall()) == 100
        assert cursor.fetchone() is None
        cursor.scroll(-1)
        assert cursor.fetchone() is None
        cursor.scroll(-3)
        assert cursor.fetchall() == [(98,), (99,)]


DIRECTIONS = [
    ("FETCH FIRST FROM c", [0]),
    ("FETCH PRIOR FROM c", []),
    ("FETCH NEXT FROM c", [0]),
    ("FETCH 3 FROM c", [1, 2, 3]),
    ("FETCH BACKWARD 2 FROM c", [2, 1]),
    ("FETCH FORWARD 0 FROM c", [1]),
    ("FETCH RELATIVE 3 FROM c", [4]),
    ("FETCH RELATIVE -2 IN c", [2]),
    ("FETCH ABSOLUTE 8 FROM c", [7]),
    ("FETCH ABSOLUTE -2 FROM c", [8]),
    ("FETCH LAST FROM c", [9]),
    ("FETCH FORWARD 5 FROM c", []),
    ("FETCH BACKWARD ALL FROM c", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ("FETCH BACKWARD FROM c", []),
    ("FETCH ALL FROM c", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("FETCH -2 FROM c", [9, 8]),
    ("FETCH ABSOLUTE 0 FROM c", []),
    ("FETCH FORWARD 1 FROM c", [0]),
    ("FETCH ABSOLUTE 11 FROM c", []),
    ("FETCH PRIOR FROM c", [9]),
    ("FETCH ABSOLUTE -11 FROM c", []),
    ("FETCH c", [0]),
]


def test_every_direction_of_fetch_and_move(pg: RunningServer) -> None:
    with pg.connect() as connection, connection.transaction():
        connection.execute("DECLARE c SCROLL CURSOR FOR SELECT i FROM counted WHERE i < 10 ORDER BY i")
        connection.execute("DECLARE m SCROLL CURSOR FOR SELECT i FROM counted WHERE i < 10 ORDER BY i")
        for text, rows in DIRECTIONS:
            found = connection.execute(text)
            assert ([row[0] for row in found.fetchall()], found.statusmessage) == (rows, f"FETCH {len(rows)}"), text
            moved = connection.execute(text.replace("FETCH", "MOVE").replace(" c", " m"))
            assert moved.statusmessage == f"MOVE {len(rows)}", text
        connection.execute("CLOSE ALL")


def test_a_cursor_without_scroll_only_goes_forward(pg: RunningServer) -> None:
    with pg.connect() as connection:
        for declared in ("", "NO SCROLL"):
            connection.execute(f"DECLARE f {declared} CURSOR FOR SELECT i FROM counted WHERE i < 10 ORDER BY i")
            assert connection.execute("MOVE 3 FROM f").statusmessage == "MOVE 3"
            assert connection.execute("FETCH RELATIVE 2 FROM f").fetchall() == [(4,)]
            for text in (
                "FETCH PRIOR",
                "FETCH BACKWARD ALL",
                "FETCH FIRST",
                "FETCH LAST",
                "MOVE -1",
                "FETCH ABSOLUTE 9",
            ):
                with pytest.raises(psycopg.Error, match="SCROLL"):
                    connection.execute(f"{text} FROM f")
            assert connection.execute("FETCH NEXT FROM f").fetchall() == [(5,)]
            connection.execute("CLOSE f")


def test_rows_that_a_scrollable_cursor_keeps_are_bounded(pg: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "SCROLL_BYTES_MAX", 4_000)
    with pg.connect() as connection:
        connection.execute("DECLARE a SCROLL CURSOR FOR SELECT i FROM counted WHERE i < 10 ORDER BY i")
        assert len(connection.execute("FETCH ALL FROM a").fetchall()) == 10
        connection.execute("DECLARE b SCROLL CURSOR FOR SELECT i FROM counted ORDER BY i")
        with pytest.raises(psycopg.Error, match="scrollable cursors of a session keep at most 4000 bytes"):
            connection.execute("FETCH LAST FROM b")
        connection.execute("DECLARE c CURSOR FOR SELECT i FROM counted ORDER BY i")
        assert len(connection.execute("FETCH ALL FROM c").fetchall()) == 1000
        assert connection.execute("FETCH PRIOR FROM a").fetchall() == [(9,)]
