"""Options of tables and databases: what is taken, in which form it is kept, what is refused and how."""

from __future__ import annotations

import pytest

from tsdb.database._options import (
    check_altered_options,
    check_database_options,
    check_table_options,
    format_human,
)
from tsdb.errors import TsdbError
from tsdb.units import Duration


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("7d", "7days"),
        ("1d", "1day"),
        ("90m", "1h 30m"),
        ("1500ms", "1s 500ms"),
        ("2 years", "2years"),
        ("1month", "1month"),
        ("0s", "0s"),
    ],
)
def test_durations_are_shown_in_words(text: str, shown: str) -> None:
    assert format_human(Duration.parse(text)) == shown
    assert Duration.parse(shown) == Duration.parse(text)


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("ttl", "7d", "7days"),
        ("ttl", "", "forever"),
        ("ttl", "0s", "forever"),
        ("ttl", "instant", "instant"),
        ("append_mode", "TRUE", "true"),
        ("merge_mode", "last_non_null", "last_non_null"),
        ("write_buffer_size", "128MB", "128.0MiB"),
        ("compaction.twcs.time_window", "2h", "2h"),
    ],
)
def test_values_are_kept_in_one_form(key: str, value: str, kept: str) -> None:
    assert check_table_options([(key, value)])[key] == kept


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([("nope", "1")], 1004),
        ([("ttl", "soon")], 1002),
        ([("merge_mode", "first")], 1004),
        ([("append_mode", "maybe")], 1004),
        ([("append_mode", "true"), ("merge_mode", "last_non_null")], 1004),
        ([("compaction.twcs.trigger_file_num", "many")], 1004),
        ([("max_row_group_row_count", "0")], 1004),
        ([("auto_flush_interval", "0s")], 1004),
    ],
)
def test_what_means_nothing_is_refused(options: list[tuple[str, str]], code: int) -> None:
    with pytest.raises(TsdbError) as caught:
        check_table_options(options)
    assert caught.value.status.value == code


def test_a_compaction_key_brings_its_type() -> None:
    assert check_table_options([("compaction.twcs.trigger_file_num", "4")])["compaction.type"] == "twcs"


def test_a_database_has_no_instant_ttl() -> None:
    for is_new, code in ((True, 1002), (False, 1004)):
        with pytest.raises(TsdbError) as caught:
            check_database_options([("ttl", "instant")], is_new=is_new)
        assert caught.value.status.value == code


def test_only_some_options_can_be_altered() -> None:
    assert check_altered_options([("ttl", "1d"), ("auto_flush_interval", None)]) == {
        "ttl": "1day",
        "auto_flush_interval": None,
    }
    for key, value in (("merge_mode", "last_row"), ("ttl", "x"), ("append_mode", None)):
        with pytest.raises(TsdbError) as caught:
            check_altered_options([(key, value)])
        assert caught.value.status.value == 1004
