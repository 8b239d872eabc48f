"""The text of statements: bytes inside of it, comments that are statements, how many statements there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import InvalidSyntax
from tsdb.servers.mysql._reflection import is_reflection, mysql_create_table
from tsdb.servers.mysql._texts import (
    count_statements,
    executable_comment,
    is_urgent,
    killed_connection,
    read_text,
)


@given(st.binary())
def test_bytes_inside_of_a_text_become_hexadecimal(data: bytes) -> None:
    escaped = {0: b"\\0", 10: b"\\n", 13: b"\\r", 26: b"\\Z", 34: b'\\"', 39: b"\\'", 92: b"\\\\"}
    literal = b"_binary'" + b"".join(escaped.get(byte, bytes((byte,))) for byte in data) + b"'"
    assert read_text(b"SELECT " + literal + b", 1") == f"SELECT X'{data.hex()}', 1"


@pytest.mark.parametrize(
    "text", ["SELECT '_binary''x'", "SELECT \"_binary'x'\"", "-- _binary'x'", "/* _binary'x' */ 1"]
)
def test_what_looks_like_bytes_inside_of_strings_and_comments_stays(text: str) -> None:
    assert read_text(text.encode()) == text


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(InvalidSyntax, match="UTF-8"):
        read_text(b"SELECT '\xff'")


@pytest.mark.parametrize(
    ("text", "count"),
    [("SELECT 1", 1), ("SELECT 1;", 1), (";;SELECT 1 ; -- x", 1), ("SELECT ';'; SELECT 2", 2), ("a;b;;c", 3)],
)
def test_statements_are_counted(text: str, count: int) -> None:
    assert count_statements(text) == count


@pytest.mark.parametrize("text", ["", ";", " ; ; ", "-- x", "/* x */;"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    with pytest.raises(InvalidSyntax, match="empty"):
        count_statements(text)


def test_a_comment_for_servers_that_know_it_is_a_statement() -> None:
    assert executable_comment("/*!40101 SET NAMES utf8 */;") == "SET NAMES utf8"
    assert executable_comment("/*M!999999\\- enable the sandbox mode */ \n-- x\n/*!40101 SET a=@@b */") == "SET a=@@b"
    parts = ("CREATE ALGORITHM=UNDEFINED", "DEFINER=`r`@`%` SQL SECURITY DEFINER", "VIEW `v` AS SELECT 1")
    assert executable_comment("\n".join(f"/*!50001 {each} */" for each in parts)) == "CREATE VIEW `v` AS SELECT 1"
    assert executable_comment("/* SET NAMES utf8 */") is None
    assert executable_comment("SELECT 1 /*!40101 , 2 */") is None


def test_what_stops_statements_does_not_wait_behind_them() -> None:
    assert is_urgent("/* tool */ kill query 5")
    assert is_urgent("SHOW FULL PROCESSLIST")
    assert not is_urgent("SELECT 'kill'")
    assert killed_connection("KILL CONNECTION 7;") == 7
    assert killed_connection("KILL 7") == 7
    assert killed_connection("KILL QUERY 7") is None


def test_only_what_is_quoted_throughout_is_a_question_of_a_tool() -> None:
    assert is_reflection("SHOW CREATE TABLE `public`.`t`")
    assert not is_reflection("SHOW CREATE TABLE t")
    assert not is_reflection("SHOW CREATE VIEW `t`")


def test_a_table_is_printed_in_the_words_of_mysql() -> None:
    own = (
        "CREATE TABLE IF NOT EXISTS `t` (\n  `ts` TIMESTAMP(9) NOT NULL DEFAULT current_timestamp(),\n"
        "  `host` STRING NULL COMMENT 'a' FULLTEXT INDEX WITH(analyzer = 'English'),\n"
        "  `n` INT UNSIGNED NULL,\n  `x` DECIMAL(10, 2) NULL DEFAULT 1,\n  TIME INDEX (`ts`),\n"
        "  PRIMARY KEY (`host`, `n`)\n)\n\nENGINE=mito\nWITH(\n  ttl = '1d'\n)"
    )
    assert mysql_create_table(own) == (
        "CREATE TABLE `t` (\n  `ts` timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,\n  `host` text COMMENT 'a',\n"
        "  `n` int unsigned,\n  `x` decimal(10,2) DEFAULT 1,\n  PRIMARY KEY (`host`,`n`,`ts`)\n"
        ") ENGINE=mito DEFAULT CHARSET=utf8mb4"
    )


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        (b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `a`", "CREATE DATABASE IF NOT EXISTS `a`"),
        (b" drop view /*!50001 IF EXISTS */ v", " drop view IF EXISTS v"),
        (b"CREATE DATABASE a /*!40100 DEFAULT CHARACTER SET utf8 */", None),
        (b"SELECT 'CREATE DATABASE /*!32312 IF NOT EXISTS*/ a'", None),
    ],
)
def test_the_condition_of_a_dump_counts(packet: bytes, text: str | None) -> None:
    assert read_text(packet) == (packet.decode() if text is None else text)
