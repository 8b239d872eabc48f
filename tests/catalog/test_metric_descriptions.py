"""Descriptions of metrics: what is kept, what is written, what is forgotten, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tsdb.catalog._keys import metric_key, split_metric_key
from tsdb.catalog._metric_descriptions import (
    CHANGES_MAX,
    HELP_CHARS_MAX,
    UNIT_CHARS_MAX,
    VARIANTS_MAX,
    MetricDescriptions,
)
from tsdb.kv import Compare, KvStore, MemoryKv, Operation, PutKey, SqliteKv
from tsdb.model import MetricDescription, metric_type

UP = MetricDescription("gauge", "", "Whether the target answers.")


class CountingKv(MemoryKv):
    """Counts the transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        self.transactions += 1
        return super().transact(compares, operations)


def opened(kv: KvStore, *databases: str, **limits: int) -> MetricDescriptions:
    return MetricDescriptions(kv, lambda name: name in (databases or ("public",)), **limits)


def test_a_description_survives_a_restart_and_is_of_one_database(tmp_path: Path) -> None:
    kv = SqliteKv(tmp_path / "metadata.sqlite")
    opened(kv, "public", "other").keep("public", [("up", UP), ("a/b%2Fc", UP)])
    kv.close()
    kv = SqliteKv(tmp_path / "metadata.sqlite")
    again = opened(kv, "public", "other")
    assert again.of("public") == {"up": (UP,), "a/b%2Fc": (UP,)}
    assert again.of("other") == {}
    kv.close()


def test_what_is_known_is_not_written_again() -> None:
    kv = CountingKv()
    descriptions = opened(kv)
    many = [(f"m{number}", UP) for number in range(300)]
    descriptions.keep("public", many)
    assert kv.transactions == 3
    descriptions.keep("public", many)
    opened(kv).keep("public", many)
    assert kv.transactions == 3


def test_the_newest_of_several_descriptions_comes_first_and_the_oldest_goes() -> None:
    kv = MemoryKv()
    descriptions = opened(kv)
    said = [MetricDescription("counter", "", f"help {number}") for number in range(VARIANTS_MAX + 2)]
    for each in said:
        descriptions.keep("public", [("m", each)])
    assert descriptions.of("public")["m"] == tuple(reversed(said))[:VARIANTS_MAX]
    assert opened(kv).of("public") == descriptions.of("public")


def test_a_metric_that_never_stops_changing_is_not_listened_to_for_ever() -> None:
    kv = CountingKv()
    descriptions = opened(kv)
    for number in range(CHANGES_MAX + 20):
        descriptions.keep("public", [("m", MetricDescription("gauge", "", str(number)))])
    assert kv.transactions == CHANGES_MAX + 1
    assert descriptions.of("public")["m"][0].help == str(CHANGES_MAX)


def test_long_texts_are_cut_and_the_cut_ones_are_known() -> None:
    kv = CountingKv()
    descriptions = opened(kv)
    long = MetricDescription("gauge", "u" * 1000, "ü" * 100_000)
    descriptions.keep("public", [("m", long), ("", UP), ("n" * 600, UP)])
    assert descriptions.of("public") == {"m": (MetricDescription("gauge", "u" * UNIT_CHARS_MAX, "ü" * HELP_CHARS_MAX),)}
    descriptions.keep("public", [("m", long)])
    assert kv.transactions == 1


@pytest.mark.parametrize("limits", [{"metrics_max": 2}, {"text_chars_max": 2 * len(UP.help)}])
def test_beyond_the_bound_new_metrics_stay_undescribed(limits: dict[str, int]) -> None:
    descriptions = opened(MemoryKv(), **limits)
    for number in range(5):
        descriptions.keep("public", [(f"m{number}", UP)])
    assert list(descriptions.of("public")) == ["m0", "m1"]
    descriptions.forget("public")
    descriptions.keep("public", [("m9", UP)])
    assert list(descriptions.of("public")) == ["m9"]


def test_what_a_database_that_is_gone_left_behind_is_removed() -> None:
    kv = MemoryKv()
    opened(kv, "public", "gone").keep("gone", [("up", UP)])
    descriptions = opened(kv)
    assert descriptions.of("gone") == {}
    assert kv.scan("__metric_info/") == []
    descriptions.keep("gone", [("up", UP)])
    assert descriptions.of("gone") == {}


def test_a_description_that_cannot_be_read_is_left_out() -> None:
    kv = MemoryKv()
    opened(kv).keep("public", [("good", UP)])
    kv.transact([], [PutKey(metric_key("public", "bad"), b"[{}]")])
    assert list(opened(kv).of("public")) == ["good"]


def test_keys_tell_database_and_metric_apart() -> None:
    for pair in (("public", "up"), ("a/b", "c%2Fd/e"), ("%25", "/")):
        assert split_metric_key(metric_key(*pair)) == pair


def test_numbers_of_types_that_are_not_known_are_unknown() -> None:
    assert [metric_type(number) for number in (0, 1, 7, 8, 2**31)] == [
        "unknown",
        "counter",
        "stateset",
        "unknown",
        "unknown",
    ]
