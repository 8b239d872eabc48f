"""pandas creates tables without a time index, by MySQL's and by PostgreSQL's protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest
import sqlalchemy as sa

from tests.server_process import ServerProcess, running

DRIVERS = [
    ("mysql+pymysql", "MySQL"),
    ("mysql+mysqlconnector", "MySQL"),
    ("postgresql+psycopg", "Postgres"),
    ("postgresql+psycopg2", "Postgres"),
]
FRAME = pd.DataFrame(
    {
        "when": pd.to_datetime(["2024-01-01 00:00:00.25", "2024-01-01 01:00:00.5", "2024-01-01 01:00:00.5"]),
        "host": ["a", "b", "b"],
        "v": [1.5, None, 2.0],
        "n": [1, 2, 2**40],
        "ok": [True, False, True],
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("pandas")) as started:
        yield started


@pytest.fixture(params=DRIVERS, ids=lambda each: each[0])
def engine(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    driver, protocol = request.param
    port = re.search(rf"^  {protocol} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert port is not None, server.output
    made = sa.create_engine(f"{driver}://me@127.0.0.1:{port[1]}/public")
    yield made
    made.dispose()


@pytest.mark.parametrize("has_index", [False, True])
def test_a_frame_becomes_a_table_whose_time_index_is_its_first_timestamp(engine: sa.Engine, has_index: bool) -> None:
    for mode, count in (("replace", 3), ("append", 6)):
        FRAME.to_sql("frame", engine, if_exists=mode, index=has_index)  # type: ignore[arg-type]
        assert pd.read_sql("SELECT count(*) AS n FROM frame", engine)["n"].tolist() == [count]
    back = pd.read_sql_table("frame", engine).sort_values(["n", "v"]).iloc[::2].reset_index(drop=True)
    assert list(back.columns) == [*(["index"] if has_index else []), *FRAME.columns]
    assert back["when"].tolist() == FRAME["when"].tolist()
    assert back["v"].astype(str).tolist() == FRAME["v"].astype(str).tolist()
    assert back["n"].tolist() == FRAME["n"].tolist()
    assert back["ok"].astype(bool).tolist() == FRAME["ok"].tolist()
    with engine.connect() as connection:
        created = connection.execute(sa.text("SHOW CREATE TABLE frame")).fetchall()[0][1]
    assert re.search(r'TIME INDEX \(["`]when["`]\)', created) or "mysql" in str(engine.url), created
    assert "append_mode = 'true'" in created or "mysql" in str(engine.url), created


def test_a_frame_without_times_gets_a_column_with_the_time_of_the_insert(engine: sa.Engine) -> None:
    plain = pd.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    plain.to_sql("plain", engine, if_exists="replace", index=False)
    back = pd.read_sql_table("plain", engine)
    assert back[["a", "b"]].sort_values("a").to_numpy().tolist() == plain.to_numpy().tolist()
    assert list(back.columns) == ["a", "b", "tsdb_timestamp"]
    assert (pd.Timestamp.now("UTC").tz_localize(None) - back["tsdb_timestamp"]).dt.total_seconds().abs().max() < 600


def test_a_primary_key_makes_rows_replace_each_other_and_an_index_goes_to_its_columns(engine: sa.Engine) -> None:
    table = sa.Table(
        "keyed",
        sa.MetaData(),
        sa.Column("host", sa.String(64), primary_key=True),
        sa.Column("at", sa.DateTime),
        sa.Column("v", sa.Float, index=True),
    )
    table.drop(engine, checkfirst=True)
    table.create(engine)
    with engine.begin() as connection:
        for value in (1.0, 2.0):
            connection.execute(table.insert().values(host="a", at=pd.Timestamp("2024-01-01").to_pydatetime(), v=value))
        assert connection.execute(sa.select(table.c.host, table.c.v)).fetchall() == [("a", 2.0)]
        created = connection.execute(sa.text("SHOW CREATE TABLE keyed")).fetchall()[0][1]
    assert "INVERTED INDEX" in created or "mysql" in str(engine.url), created
