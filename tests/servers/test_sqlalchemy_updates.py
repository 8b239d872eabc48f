"""UPDATE by SQLAlchemy, by its Core and by its ORM, is the same by MySQL's and by PostgreSQL's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.server_process import ServerProcess, running

SETUP = (
    "DROP TABLE IF EXISTS reading",
    "CREATE TABLE reading (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE, n BIGINT)",
    "INSERT INTO reading VALUES ('a', 1000, 1.5, 1), ('b', 2000, 2.5, 2), ('c', 3000, NULL, 3)",
)


class Base(DeclarativeBase):
    """The tables of the ORM."""


class Reading(Base):
    """A row of the table that is updated."""

    __tablename__ = "reading"
    host: Mapped[str] = mapped_column(primary_key=True)
    ts: Mapped[datetime] = mapped_column(primary_key=True)
    v: Mapped[float | None]
    n: Mapped[int]


TABLE: Any = Reading.__table__


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("updates")) as started:
        yield started


@pytest.fixture(params=[("mysql+pymysql", "MySQL"), ("postgresql+psycopg", "Postgres")], ids=lambda each: each[0])
def engine(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    driver, protocol = request.param
    made = sa.create_engine(f"{driver}://me@127.0.0.1:{server.port_of(protocol)}/public")
    with made.begin() as connection:
        for text in SETUP:
            connection.execute(sa.text(text))
    yield made
    made.dispose()


def read_rows(engine: sa.Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text("SELECT host, v, n FROM reading ORDER BY n"))]


def test_core_updates_rows_and_counts_them(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        one = sa.update(TABLE).where(TABLE.c.host == "a").values(v=9.25, n=TABLE.c.n + 10)
        assert connection.execute(one).rowcount == 1
        some = sa.update(TABLE).where(TABLE.c.n.in_([2, 3])).values(v=None)
        assert connection.execute(some).rowcount == 2
        none = sa.update(TABLE).where(TABLE.c.host == "nobody").values(v=1.0)
        assert connection.execute(none).rowcount == 0
        each = sa.update(TABLE).where(TABLE.c.host == sa.bindparam("h")).values(v=sa.bindparam("x"))
        connection.execute(each, [{"h": "b", "x": 0.5}, {"h": "c", "x": 0.75}])
    assert read_rows(engine) == [("b", 0.5, 2), ("c", 0.75, 3), ("a", 9.25, 11)]


def test_orm_updates_a_row_that_was_read_and_rows_of_a_condition(engine: sa.Engine) -> None:
    with Session(engine) as session:
        found = session.scalars(sa.select(Reading).where(Reading.host == "a")).one()
        found.v = 7.5
        session.commit()
        assert (found.v, found.ts) == (7.5, datetime(1970, 1, 1, 0, 0, 1))
        session.execute(sa.update(Reading).where(Reading.n > 1).values(n=Reading.n * 2))
        session.commit()
    assert read_rows(engine) == [("a", 7.5, 1), ("b", 2.5, 4), ("c", None, 6)]
