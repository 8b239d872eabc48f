"""The register of series: the same rows as a scan gives, from sources that are looked at once."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scan.regions import MODES, Region, Write, delete, make_schema, put, row
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.scan import SeriesRegister, SeriesRegisters, Snapshot, scan_series
from tsdb.model import RegionId, TimeRange

SCHEMA = make_schema()


def register() -> SeriesRegister:
    return SeriesRegister(SCHEMA, lambda source: source)


def read(found: SeriesRegister, snapshot: Snapshot, within: TimeRange = TimeRange.ALL) -> dict[str, list[float]] | None:
    """Return times and values of each host."""
    sources = found.learn(snapshot, within)
    if sources is None:
        return None
    chosen = np.arange(len(found.registered), dtype=np.uint32)
    samples = found.read(snapshot, sources, SCHEMA.by_name["v"], chosen, within)
    if samples is None:
        return None
    hosts = found.registered.series.read_tags().column("host").to_pylist()
    offsets, times, values = (pa.array(each).to_pylist() for each in samples.columns())
    return {
        hosts[place]: [*times[start:stop], *values[start:stop]]
        for place, start, stop in zip(pa.array(samples.places).to_pylist(), offsets, offsets[1:], strict=False)
    }


_times = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=8, unique=True)


@given(st.lists(_times, min_size=1, max_size=3), st.integers(0, 30), st.integers(0, 30))
def test_a_register_reads_what_a_scan_reads(sources: list[list[tuple[str, int]]], first: int, last: int) -> None:
    writes: list[Write] = [
        put(*(row(host, time, float(number)) for host, time in rows), source=number)
        for number, rows in enumerate(sources)
    ]
    snapshot = Region(writes).snapshot()
    within = TimeRange(min(first, last), max(first, last) + 1)
    found = read(register(), snapshot, within)
    scan = scan_series(snapshot, None, within, ["v"])
    if found is None:
        return  # only a scan can tell which rows count
    hosts, values = scan.series.read_tags().column("host").to_pylist(), scan.fields["v"].to_pylist()
    bounds = zip(hosts, scan.offsets.tolist(), scan.offsets.tolist()[1:], strict=False)
    assert found == {host: [*scan.times[low:high].tolist(), *values[low:high]] for host, low, high in bounds}


def test_numbers_stay_when_series_come() -> None:
    first, second = put(row("b", 1, 1.0), source=0), put(row("a", 2, 2.0), row("b", 3, 3.0), source=1)
    snapshot = Region([first, second]).snapshot()
    found = register()
    assert read(found, replace(snapshot, sources=snapshot.sources[:1])) == {"b": [1, 1.0]}
    assert read(found, snapshot) == {"b": [1, 3, 1.0, 3.0], "a": [2, 2.0]}
    assert found.registered.series.read_tags().column("host").to_pylist() == ["b", "a"]
    assert (found.learned, found.registered.version) == (2, 2)
    assert read(found, snapshot) is not None
    assert found.learned == 2


def test_sources_that_overlap_are_merged_and_the_newest_row_of_a_key_counts() -> None:
    first = put(row("a", 1, 1.0), row("a", 5, 1.0), source=0)
    late = Region([first, put(row("a", 3, 2.0), source=1)])
    assert read(register(), late.snapshot()) == {"a": [1, 3, 5, 1.0, 2.0, 1.0]}
    again = Region([first, put(row("a", 3, 2.0), row("a", 5, 2.0), source=1)])
    assert read(register(), again.snapshot()) == {"a": [1, 3, 5, 1.0, 2.0, 2.0]}
    backwards = replace(again.snapshot(), sources=again.snapshot().sources[::-1])
    assert read(register(), backwards) == {"a": [1, 3, 5, 1.0, 2.0, 2.0]}


def test_what_only_a_merge_can_tell_is_left_to_a_scan() -> None:
    writes = [put(row("a", 1, 1.0), source=0), put(row("a", 1, 2.0), source=1)]
    assert read(register(), Region([*writes, put(row("a", 2, 3.0), source=0)]).snapshot()) is None
    assert read(register(), Region(writes, MODES[2]).snapshot()) is None
    deleted = Region([put(row("a", 1, 1.0), source=0), delete(row("a", 1, 0.0), source=1)])
    assert read(register(), deleted.snapshot()) is None
    missing = Region([put(row("a", 1, None))])
    assert read(register(), missing.snapshot()) is None
    # Rows of different series do not hide each other.
    apart = Region([put(row("a", 1, 1.0), row("a", 5, 1.0), source=0), put(row("b", 3, 2.0), source=1)])
    assert read(register(), apart.snapshot()) == {"a": [1, 5, 1.0, 1.0], "b": [3, 2.0]}


def test_what_is_kept_of_a_source_goes_with_it() -> None:
    found = register()
    snapshot = Region([put(row("a", 1, 1.0))]).snapshot()
    assert read(found, snapshot) is not None
    before = found.nbytes
    del snapshot
    gc.collect()
    assert found.nbytes < before
    other = Region([put(row("a", 2, 2.0))]).snapshot()
    assert read(found, other) == {"a": [2, 2.0]}


def test_a_register_of_series_that_are_gone_is_wasteful() -> None:
    found = register()
    many = Region([put(*(row(f"h{number}", 1, 1.0) for number in range(3000)))]).snapshot()
    assert read(found, many) is not None
    assert not found.is_wasteful(many)
    assert found.is_wasteful(Region([put(row("a", 1, 1.0))]).snapshot())


def test_more_samples_than_fit_into_memory_are_refused() -> None:
    region = Region([put(*(row("a", time, 1.0) for time in range(1000)))])
    with pytest.raises(ScanTooLarge, match="more memory"):
        read(register(), region.snapshot(memory_bytes_max=20_000))
    assert read(register(), region.snapshot(memory_bytes_max=40_000)) is not None


def test_registers_keep_to_their_bound_and_are_made_anew() -> None:
    registers = SeriesRegisters(bytes_max=1000)
    snapshots = [Region([put(row("a", 1, 1.0), row(f"h{number}", 1, 2.0))]).snapshot() for number in range(20)]
    for number in [*range(20), *range(20)]:
        learned = registers.learn(RegionId(number), None, snapshots[number], TimeRange.ALL)
        assert learned is not None
        assert len(learned.register.registered) == 2
        assert registers.nbytes <= 1000
    assert 0 < len(registers) < 20
    first = registers.learn(RegionId(19), None, snapshots[19], TimeRange.ALL)
    again = registers.learn(RegionId(19), None, snapshots[19], TimeRange.ALL)
    assert first is not None
    assert again is not None
    assert first.register is again.register
    nothing = SeriesRegisters(bytes_max=0)
    one, other = (nothing.learn(RegionId(1), None, snapshots[1], TimeRange.ALL) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.register.number != other.register.number
    assert len(nothing) == 0
