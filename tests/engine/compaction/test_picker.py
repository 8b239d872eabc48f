"""Which files are merged: properties of the plan, and what becomes of a region that obeys it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.harness import SCHEMA
from tsdb.engine.compaction import (
    FAN_IN_MAX,
    Pick,
    Policy,
    choose_window,
    is_closed,
    may_drop_expired,
    may_drop_tombstones,
    plan_compaction,
    plan_split,
    policy_of,
)
from tsdb.engine.compaction._closure import hull
from tsdb.engine.compaction._picker import MANY_FILES, OVERLAP, QUIET_WINDOW, SPLIT
from tsdb.engine.compaction._policy import LOAD_MS, QUIET_MS
from tsdb.engine.manifest import FileMeta
from tsdb.errors import InvalidArguments
from tsdb.model import MergeMode, RegionOptions, TimeRange
from tsdb.units import Duration, Size

DAY = 1000
"""The length of a window, in ticks."""
POLICY = Policy(window_ticks=DAY, output_bytes_max=10_000)
PLAIN = RegionOptions()
LIFTING = RegionOptions(merge_mode=MergeMode.LAST_NON_NULL)
APPENDING = RegionOptions(append_mode=True)


def file(
    number: int, *, size: int = 100, start: int = 0, end: int = DAY, tombstones: bool = False, **more: int
) -> FileMeta:
    """A file as a flush makes it, the `number`th of its region."""
    return FileMeta(
        file_id=f"{number:032x}",
        time_range=TimeRange(start, end),
        rows=size,
        size_bytes=size,
        index_size_bytes=0,
        level=0,
        series=1,
        row_groups=1,
        sequence_min=more.get("first", number * 10),
        sequence_max=more.get("last", number * 10 + 9),
        has_tombstones=tombstones,
        is_unique=True,
        schema_version=1,
        created_ms=more.get("created_ms", 0),
    )


def plan(
    files: list[FileMeta], options: RegionOptions = PLAIN, policy: Policy = POLICY, **more: object
) -> list[int] | None:
    """Plan, and return the numbers of the files that were picked."""
    pick = plan_compaction(
        files,
        options,
        policy,
        kind_of=lambda meta: 0,
        weight_of=lambda meta: meta.rows,
        now_ms=0,
        **more,  # type: ignore[arg-type]
    )
    return None if pick is None else [int(meta.file_id, 16) for meta in pick.files]


def test_fewer_files_than_the_trigger_are_left_alone() -> None:
    files = [file(number) for number in range(4)]
    assert plan(files[:3]) is None
    assert plan(files) == [0, 1, 2, 3]
    three = policy_of(RegionOptions(compaction_trigger_files=3), DAY, memory_bytes_max=1 << 30)
    assert plan(files[:3], policy=three) == [0, 1, 2]


def test_twice_as_many_files_are_awaited_during_a_load() -> None:
    policy = policy_of(PLAIN, DAY, memory_bytes_max=1 << 30)
    assert (policy.files_min, policy.load_files_min) == (4, 8)
    fast = [file(number, created_ms=-LOAD_MS + 1 + number) for number in range(8)]
    assert plan(fast[:4], policy=policy) is None
    assert plan(fast[:7], policy=policy) is None
    assert plan(fast, policy=policy) == list(range(8))
    assert plan(fast[:4], policy=policy, is_idle=True) == [0, 1, 2, 3]
    assert plan(fast[:4], policy=policy.forced()) == [0, 1, 2, 3]
    slow = [file(0, created_ms=-LOAD_MS), *fast[1:4]]
    assert plan(slow, policy=policy) == [0, 1, 2, 3]
    requested = policy_of(RegionOptions(compaction_trigger_files=4), DAY, memory_bytes_max=1 << 30)
    assert plan(fast[:4], policy=requested) == [0, 1, 2, 3]
    # A larger file that an earlier merge made does not count as one of them.
    assert plan([file(9, size=1000, first=0, last=1, created_ms=-1), *fast[1:5]], policy=policy) is None


def test_a_large_file_is_not_rewritten_for_a_few_small_ones() -> None:
    assert plan([file(0, size=1000), *(file(number, size=10) for number in range(1, 4))]) is None
    assert plan([file(0, size=1000), *(file(number, size=10) for number in range(1, 5))]) == [1, 2, 3, 4]


def test_files_are_not_merged_beyond_the_largest_size() -> None:
    full = [file(number, size=9_999) for number in range(3)]
    assert plan([*full, *(file(number, size=10) for number in range(3, 6))]) is None
    assert plan([full[0], file(1), full[2], file(3), file(4), file(5)]) == [1, 3, 4, 5]


def test_files_of_different_windows_are_not_merged_and_the_newest_window_comes_first() -> None:
    old = [file(number, start=0, end=DAY) for number in range(4)]
    new = [file(number, start=DAY - 1, end=DAY + 1) for number in range(4, 8)]
    assert plan([*old[:2], *new[:2]]) is None
    assert plan([*old, *new]) == [4, 5, 6, 7]
    assert plan([*old, *new[:3]]) == [0, 1, 2, 3]


def test_files_of_another_kind_or_from_before_append_mode_are_not_merged_with_others() -> None:
    files = [file(number) for number in range(6)]
    pick = plan_compaction(
        files, PLAIN, POLICY, kind_of=lambda meta: int(meta.file_id, 16) > 1, weight_of=lambda meta: 1, now_ms=0
    )
    assert pick is not None
    assert [int(meta.file_id, 16) for meta in pick.files] == [2, 3, 4, 5]
    assert plan(files, RegionOptions(append_mode=True, append_from=20)) == [2, 3, 4, 5]
    assert plan(files, RegionOptions(append_mode=True, append_from=30)) is None


def test_files_that_overlap_are_merged_in_an_idle_region_if_the_result_is_half_again_as_large() -> None:
    apart = [file(number, start=number * 100, end=number * 100 + 100) for number in range(3)]
    assert plan(apart, is_idle=True) is None
    late = [apart[0], file(1, start=90, end=200), apart[2]]
    assert plan(late) is None
    assert plan(late, is_idle=True) == [0, 1]
    assert plan(late, APPENDING, is_idle=True) is None
    assert plan([file(0, size=1000), file(1, size=499)], is_idle=True) is None
    assert plan([file(0, size=1000), file(1, size=500)], is_idle=True) == [0, 1]
    assert plan([file(0, size=1000), file(1, size=250), file(2, size=250)], is_idle=True) == [0, 1, 2]
    # What a merge made does not overlap with itself.
    assert plan([file(1, size=200, end=200), apart[2]], is_idle=True) is None


def test_an_idle_region_rewrites_a_row_a_few_times_however_many_files_come() -> None:
    files: list[FileMeta] = []
    written = 0
    for number in range(64):
        files.append(file(number, size=100))
        while (picked := plan(files, is_idle=True, policy=replace(POLICY, output_bytes_max=1 << 20))) is not None:
            size = sum(each.size_bytes for each in files if int(each.file_id, 16) in picked)
            files = [each for each in files if int(each.file_id, 16) not in picked]
            files.append(file(max(picked), size=size, first=min(picked) * 10, last=max(picked) * 10 + 9))
            written += size
    assert written <= 64 * 100 * math.log2(64)


def test_files_that_are_taken_are_not_picked_but_still_count() -> None:
    files = [file(number) for number in range(5)]
    assert plan(files, taken={files[0].file_id}) == [1, 2, 3, 4]
    assert plan(files, LIFTING, taken={files[2].file_id}) is None


def test_a_window_that_is_not_written_to_any_more_is_tidied_up() -> None:
    quiet = [file(0, size=100), file(1, size=40)]
    newest = file(2, start=DAY, end=2 * DAY, created_ms=QUIET_MS)

    def planned(now_ms: int) -> Pick | None:
        return plan_compaction(
            [*quiet, newest], PLAIN, POLICY, kind_of=lambda meta: 0, weight_of=lambda meta: 1, now_ms=now_ms
        )

    assert planned(QUIET_MS - 1) is None
    assert planned(QUIET_MS) == Pick(tuple(quiet), reason=QUIET_WINDOW)
    # Not for less than a third of new bytes.
    quiet[1] = replace(quiet[1], size_bytes=20)
    assert planned(QUIET_MS) is None


def test_the_fan_in_is_bounded_by_number_and_by_memory() -> None:
    files = [file(number, size=1) for number in range(100)]
    picked = plan(files)
    assert picked is not None
    assert len(picked) == FAN_IN_MAX
    picked = plan(files, policy=replace(POLICY, memory_bytes_max=10))
    assert picked is not None
    assert len(picked) == 10
    # As many as are worth a merge are merged whatever they take, or they would stay for ever.
    picked = plan(files, policy=replace(POLICY, memory_bytes_max=1))
    assert picked is not None
    assert len(picked) == 4


def test_ten_thousand_files_become_few_in_several_rounds_and_no_row_is_rewritten_often() -> None:
    files = [file(number, size=10, first=number, last=number) for number in range(10_000)]
    policy = replace(POLICY, output_bytes_max=50_000)
    files, rewritten, rounds = run(files, PLAIN, policy)
    assert len(files) < 32
    assert rewritten < 4 * 100_000
    assert rounds < 400


def test_a_stream_of_flushes_keeps_few_files_and_rewrites_each_row_a_few_times() -> None:
    files: list[FileMeta] = []
    rewritten, most = 0, 0
    for number in range(3000):
        files.append(file(number, size=10))
        files, bytes_read, _ = run(files, PLAIN, replace(POLICY, output_bytes_max=1 << 30))
        rewritten += bytes_read
        most = max(most, len(files))
    assert most <= 4 * math.log(3000, 3)
    assert rewritten <= 30_000 * math.log(3000, 3)


def run(files: list[FileMeta], options: RegionOptions, policy: Policy) -> tuple[list[FileMeta], int, int]:
    """Merge until all is well; return the files, the bytes that were read, and the number of merges."""
    rewritten, rounds = 0, 0
    while (
        pick := plan_compaction(
            files, options, policy, kind_of=lambda meta: 0, weight_of=lambda meta: meta.rows, now_ms=0
        )
    ) is not None:
        merged = merged_of(pick.files, number=1_000_000 + rounds + len(files) * 1000)
        rewritten += merged.size_bytes
        rounds += 1
        chosen = {meta.file_id for meta in pick.files}
        files = [*(meta for meta in files if meta.file_id not in chosen), merged]
    return files, rewritten, rounds


def merged_of(picked: tuple[FileMeta, ...], *, number: int) -> FileMeta:
    span = hull(picked)
    return file(
        number,
        size=sum(meta.size_bytes for meta in picked),
        start=span.start,
        end=span.end,
        first=min(meta.sequence_min for meta in picked),
        last=max(meta.sequence_max for meta in picked),
        tombstones=any(meta.has_tombstones for meta in picked),
    )


OPTIONS = st.sampled_from([PLAIN, LIFTING, APPENDING, RegionOptions(append_mode=True, append_from=70)])


@st.composite
def regions(draw: st.DrawFn) -> list[FileMeta]:
    """Files in any state: of flushes, some of them spanning windows, and of merges with sequences that interleave."""
    files = []
    for number in range(draw(st.integers(0, 14))):
        start = draw(st.integers(-3000, 3000))
        first = number * 10
        files.append(
            file(
                number,
                size=draw(st.sampled_from([1, 10, 10, 100, 5000])),
                start=start,
                end=start + draw(st.sampled_from([1, 10, DAY, 3 * DAY])),
                tombstones=draw(st.booleans()),
                first=max(0, first - draw(st.sampled_from([0, 0, 0, 35]))),
                last=first + 9,
            )
        )
    return files


@given(regions(), OPTIONS, st.booleans())
@settings(max_examples=300)
def test_every_pick_obeys_its_limits_and_merging_comes_to_an_end(
    files: list[FileMeta], options: RegionOptions, is_forced: bool
) -> None:
    policy = POLICY.forced() if is_forced else POLICY
    rounds = 0
    while (
        pick := plan_compaction(
            files, options, policy, kind_of=lambda meta: 0, weight_of=lambda meta: meta.rows, now_ms=0
        )
    ) is not None:
        picked = pick.files
        assert policy.files_min <= len(picked) <= policy.fan_in_max
        assert len({meta.file_id for meta in picked} & {meta.file_id for meta in files}) == len(picked)
        assert len({meta.time_range.last // DAY for meta in picked}) == 1
        assert len({options.keeps_all(meta.sequence_min) for meta in picked}) == 1
        assert sum(meta.size_bytes for meta in picked) <= policy.output_bytes_max
        if options.merge_mode is MergeMode.LAST_NON_NULL:
            assert is_closed(options, picked, files)
        chosen = {meta.file_id for meta in picked}
        files = [meta for meta in files if meta.file_id not in chosen] + [merged_of(picked, number=1000 + rounds)]
        rounds += 1
        assert rounds < 20


@given(regions(), st.data())
def test_tombstones_stay_while_a_file_outside_may_have_an_older_row(files: list[FileMeta], data: st.DataObject) -> None:
    if not files:
        return
    picked = data.draw(st.lists(st.sampled_from(files), min_size=1, unique=True))
    outside = [meta for meta in files if meta not in picked]

    def hidden(each: FileMeta) -> bool:
        return any(
            other.sequence_min < each.sequence_max and other.time_range.overlaps(each.time_range) for other in outside
        )

    assert may_drop_tombstones(PLAIN, picked, files) == (
        not any(hidden(each) for each in picked if each.has_tombstones)
    )
    assert may_drop_expired(PLAIN, picked, files) == (not any(map(hidden, picked)))
    assert may_drop_expired(APPENDING, picked, files)


def test_a_tombstone_of_two_merged_files_stays_when_the_one_between_them_is_left_out() -> None:
    first, second, third = file(1), file(2), file(3, tombstones=True)
    files = [first, second, third]
    assert not may_drop_tombstones(PLAIN, [first, third], files)
    assert may_drop_tombstones(PLAIN, files, files)
    assert may_drop_tombstones(PLAIN, [file(0, tombstones=True), second], [file(0, tombstones=True), *files])
    assert not is_closed(LIFTING, [first, third], files)
    assert is_closed(LIFTING, [second, third], files)


def test_of_33_files_32_are_merged_and_a_tombstone_stays_for_the_one_that_is_left_out() -> None:
    oldest = file(0)
    files = [oldest, *(file(number, size=50) for number in range(1, 32)), file(32, size=50, tombstones=True)]
    assert len(files) == FAN_IN_MAX + 1
    picked = plan(files)
    assert picked == list(range(1, 33)), "the smallest range of as many files as one merge reads"
    metas = [files[number] for number in picked]
    # Decided on what is merged, not on what is in the window.
    assert may_drop_tombstones(PLAIN, files, files)
    assert not may_drop_tombstones(PLAIN, metas, files)
    assert not may_drop_expired(PLAIN, metas, files)


def test_a_large_file_of_a_quiet_window_is_rewritten_only_for_a_third_of_new_bytes() -> None:
    newest = file(9, start=DAY, end=2 * DAY, created_ms=QUIET_MS)

    def planned(new_bytes: int) -> Pick | None:
        large = POLICY.output_bytes_max // 2 + 1
        files = [file(0, size=large), file(1, size=new_bytes), newest]
        return plan_compaction(
            files, PLAIN, POLICY, kind_of=lambda meta: 0, weight_of=lambda meta: 1, now_ms=2 * QUIET_MS
        )

    large = POLICY.output_bytes_max // 2 + 1
    assert planned(large // 4) is None
    assert planned(large // 2) is not None


def test_a_pick_says_why() -> None:
    def reason(files: list[FileMeta], **more: object) -> str:
        pick = plan_compaction(
            files,
            PLAIN,
            POLICY,
            kind_of=lambda meta: 0,
            weight_of=lambda meta: 1,
            **more,  # type: ignore[arg-type]
        )
        assert pick is not None
        return pick.reason

    newest = file(9, start=DAY, end=2 * DAY, created_ms=QUIET_MS)
    assert reason([file(number) for number in range(4)], now_ms=LOAD_MS) == MANY_FILES
    assert reason([file(0), file(1), newest], now_ms=QUIET_MS) == QUIET_WINDOW
    assert reason([file(0), file(1)], now_ms=0, is_idle=True) == OVERLAP


def test_a_file_across_windows_is_cut_at_each_of_them_and_only_if_it_touches_the_range() -> None:
    crossing = file(1, start=-1, end=DAY + 1)
    assert plan_split([file(0), crossing], DAY, TimeRange.ALL) == Pick(
        (crossing,), (TimeRange(-DAY, 0), TimeRange(0, DAY), TimeRange(DAY, 2 * DAY)), SPLIT
    )
    assert plan_split([file(0)], DAY, TimeRange.ALL) is None
    assert plan_split([crossing], DAY, TimeRange(DAY + 1, DAY + 2)) is None
    with pytest.raises(InvalidArguments, match="longer windows"):
        plan_split([file(0, start=0, end=2000 * DAY)], DAY, TimeRange.ALL)


@pytest.mark.parametrize(
    ("span_seconds", "ttl", "window_seconds"),
    [
        (1, None, 86_400),
        (86_400, None, 86_400),
        (86_401, None, 7 * 86_400),
        (400 * 86_400, None, 7 * 86_400),
        (1, "1h", 3600),
        (1, "12h", 2 * 3600),
        (1, "3d", 12 * 3600),
        (1, "90d", 86_400),
    ],
)
def test_windows_are_a_day_or_a_week_and_short_where_rows_live_short(
    span_seconds: int, ttl: str | None, window_seconds: int
) -> None:
    options = RegionOptions(ttl=None if ttl is None else Duration.parse(ttl))
    assert choose_window(options, SCHEMA, [file(0, start=0, end=span_seconds * 1000)]) == window_seconds


def test_options_of_a_table_are_in_the_policy() -> None:
    options = RegionOptions(compaction_trigger_files=40, compaction_output_bytes=Size(77))
    policy = policy_of(options, DAY, memory_bytes_max=5)
    assert (policy.files_min, policy.fan_in_max, policy.output_bytes_max, policy.memory_bytes_max) == (40, 40, 77, 5)
    assert policy_of(RegionOptions(compaction_trigger_files=1), DAY, memory_bytes_max=5).files_min == 2
    assert policy_of(PLAIN, DAY, memory_bytes_max=5).growth_min == 3.0
