"""Series found by an index over a tag: the same as when all are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.engine.reads import scan_batches
from tests.engine.scan.regions import Region, put, row, rows_of
from tsdb.engine.scan import Call, Conditions, Constant, Ref, ScanStatistics, TagIs
from tsdb.engine.scan.plan.tag_index import HashIndex, hash_values
from tsdb.engine.tuning import ScanTuning
from tsdb.model import TimeRange

HOSTS = ["a", "b", "c", "", None, "it's"]
ZONE_1 = Call("equal", (Ref("zone"), Constant(pa.scalar(1, pa.int64()))))
V_LOW = Call("less", (Ref("v"), Constant(pa.scalar(8.0, pa.float64()))))
EITHER = Call("or_kleene", (ZONE_1, V_LOW))


def make_region() -> Region:
    rows = [row(host, ts, float(ts), zone=zone) for host in HOSTS for zone in (1, 2) for ts in range(0, 20, 4)]
    later = [row(host, ts, float(ts), zone=2) for host in ("b", "d") for ts in (15, 30)]
    return Region([put(*rows), put(*later, source=1)])


@pytest.mark.parametrize("rest", [None, ZONE_1, V_LOW, EITHER])
@pytest.mark.parametrize("span", [TimeRange.ALL, TimeRange(4, 13), TimeRange(18, 40), TimeRange(5, 5)])
@pytest.mark.parametrize("values", [("b",), ("a", "nobody", "a"), ("",), ("it's", "d", "c"), ("nobody",)])
def test_an_index_finds_the_series_that_a_comparison_finds(
    values: tuple[str, ...], span: TimeRange, rest: Call | None
) -> None:
    conditions = Conditions(span, (TagIs.one_of("host", values),), rest)
    answers = []
    for series_min, few_max in ((1 << 30, 0), (1, 16), (1, 0)):
        snapshot = make_region().snapshot(tuning=ScanTuning(index_series_min=series_min, index_few_max=few_max))
        statistics = ScanStatistics()
        found = rows_of(scan_batches(snapshot, ("host", "zone", "ts", "v"), conditions, statistics=statistics))
        answers.append((sorted(map(str, found)), statistics.series_kept))
    assert answers[0] == answers[1] == answers[2]
    assert all(each["host"] in values for each in found)


@pytest.mark.parametrize("few_max", [0, 16])
def test_hashes_that_agree_are_not_enough(few_max: int) -> None:
    hosts = pa.array([host for host in HOSTS for _ in range(2)])
    index = HashIndex(hosts, hash=lambda values: hash_values(values) & 1)
    assert index.find(hosts, ["b", "c", "nobody"], few_max).tolist() == [2, 3, 4, 5]
