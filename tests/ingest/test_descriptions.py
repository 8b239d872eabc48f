"""What samples say about metrics: when it is read, and whom it describes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.ingest.bodies import make_body
from tsdb.clock import ManualClock
from tsdb.ingest.descriptions import REPEAT_SECONDS, DescriptionReader
from tsdb.ingest.prometheus import RemoteWriteReader, Samples
from tsdb.model import MetricDescription


class Source:
    """Requests as one sender makes them, and what is read of them."""

    def __init__(self) -> None:
        self._reader = RemoteWriteReader(is_strict=True)
        self.clock = ManualClock(0)
        self._descriptions = DescriptionReader(self.clock)

    def samples(self, lines: Sequence[str], version: int) -> Samples:
        return self._reader.read(make_body("\n".join(lines), [f"prometheus_v{version}"]), version=version)

    def send(self, *lines: str, version: int = 2) -> list[tuple[str, MetricDescription]]:
        return self._descriptions.read(self.samples(lines, version), version=version)


GAUGE = MetricDescription("gauge", "", "How full.")
LINES = ("# TYPE full gauge", "# HELP full How full.", 'full{a="1"} 1 1')


def test_version_1_is_always_read() -> None:
    source = Source()
    for _ in range(2):
        assert source.send(*LINES, version=1) == [("full", GAUGE)]
    assert source.send('full{a="1"} 1 1', version=1) == []


def test_version_2_is_read_for_new_series_and_after_a_while() -> None:
    source = Source()
    assert source.send(*LINES) == [("full", GAUGE)]
    assert source.send(*LINES) == []
    assert source.send(*LINES, 'full{a="2"} 1 1') == [("full", GAUGE), ("full", GAUGE)]
    assert source.send(*LINES, 'full{a="2"} 1 1') == []
    source.clock.advance(seconds=REPEAT_SECONDS + 1)
    assert source.send(*LINES) == [("full", GAUGE)]
    assert source.send() == []


@pytest.mark.parametrize(
    ("kind", "series", "family"),
    [
        ("histogram", "size_bucket", "size"),
        ("histogram", "size_sum", "size"),
        ("histogram", "size", "size"),
        ("histogram", "_bucket", "_bucket"),
        ("gaugehistogram", "size_gcount", "size"),
        ("summary", "size_count", "size"),
        ("summary", "size_bucket", "size_bucket"),
        ("counter", "size_total", "size_total"),
        ("gauge", "size_sum", "size_sum"),
    ],
)
def test_a_series_of_version_2_describes_its_family(kind: str, series: str, family: str) -> None:
    assert Source().send(f"# TYPE {series} {kind}", f"{series} 1 1") == [(family, MetricDescription(kind, "", ""))]


def test_samples_alone_are_not_even_looked_at_twice() -> None:
    source = Source()
    lines = [f'm{{a="{number}"}} 1 1' for number in range(1000)]
    assert source.send(*lines) == []
    known = source.samples(lines, 2)
    assert source._descriptions.read(known, version=2) == []
    assert "metadata" not in known.__dict__
