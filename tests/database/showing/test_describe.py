"""DESCRIBE tells the columns of whatever has columns."""

from __future__ import annotations

from tests.database.showing.test_show import opened, shown, status
from tsdb.components._local import LocalDatabase
from tsdb.database import Channel, Session
from tsdb.errors import Status

__all__ = ["opened"]


def test_columns_come_in_the_order_of_the_table(opened: LocalDatabase) -> None:
    rows = shown(opened, "DESC TABLE monitor")
    assert [tuple(row.values()) for row in rows] == [
        ("host", "String", "PRI", "YES", "", "TAG"),
        ("Zone", "Int32", "PRI", "YES", "", "TAG"),
        ("ts", "TimestampMillisecond", "PRI", "NO", "current_timestamp()", "TIMESTAMP"),
        ("load", "Float64", "", "YES", "0.5", "FIELD"),
    ]
    assert list(rows[0]) == ["Column", "Type", "Key", "Null", "Default", "Semantic Type"]


def test_tables_nobody_created_can_be_described(opened: LocalDatabase) -> None:
    (row,) = shown(opened, "DESCRIBE numbers")
    assert (row["Column"], row["Type"], row["Semantic Type"]) == ("number", "UInt32", "TAG")
    columns = [row["Column"] for row in shown(opened, "DESC information_schema.build_info")]
    assert columns == ["git_branch", "git_commit", "git_commit_short", "git_clean", "pkg_version"]
    postgres = Session(channel=Channel.POSTGRES)
    assert shown(opened, "DESC TABLE pg_catalog.pg_am", postgres)[0]["Column"] == "oid"


def test_a_view_has_the_columns_of_its_query(opened: LocalDatabase) -> None:
    rows = shown(opened, "DESC busy")
    assert [(row["Column"], row["Type"], row["Semantic Type"]) for row in rows] == [
        ("host", "String", "FIELD"),
        ("load", "Float64", "FIELD"),
    ]


def test_a_missing_table_has_its_code(opened: LocalDatabase) -> None:
    assert status(opened, "DESC TABLE nope") == Status.TABLE_NOT_FOUND
    assert status(opened, "DESC TABLE pg_catalog.pg_am") == Status.TABLE_NOT_FOUND
