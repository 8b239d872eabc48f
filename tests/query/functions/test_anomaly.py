"""Anomaly scores over frames of every kind."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.functions.asking import ask, edited
from tsdb.query.functions._anomaly_scores import IqrScore, MadScore, Score, ZScore, score_frames

VALUES = [1.0, 2.0, 3.0, 100.0, 2.0, None, 3.0]
TABLE = pa.table({"v": VALUES, "ts": [1, 2, 3, 4, 4, 5, 6]})


def scores(call: str, window: str, table: pa.Table = TABLE) -> list[float | None]:
    return ask(f"SELECT {call} OVER {window} FROM t", table=table).column(0).to_pylist()  # type: ignore[no-any-return]


def expected_score(name: str, value: float | None, frame: list[float | None], factor: float = 1.5) -> float | None:
    """The definition, for one row."""
    known = [each for each in frame if each is not None]
    if value is None or len(known) < (2 if name == "zscore" else 3):
        return None
    if name == "iqr":
        low, high = np.quantile(known, (0.25, 0.75))
        spread = high - low
        distance = max(low - factor * spread - value, value - high - factor * spread, 0.0)
    elif name == "mad":
        centre = np.median(known)
        spread, distance = 1.4826 * np.median(np.abs(known - centre)), abs(value - centre)
    else:
        spread, distance = (np.std(known) if len(set(known)) > 1 else 0.0), abs(value - np.mean(known))
        distance = distance if spread else float(value != known[0])
    return float(distance / spread) if spread else (math.inf if distance else 0.0)


FRAMES = [
    ("()", lambda row: (0, 7)),
    ("(ORDER BY ts)", lambda row: (0, [1, 2, 3, 5, 5, 6, 7][row])),
    ("(ORDER BY ts ROWS UNBOUNDED PRECEDING)", lambda row: (0, row + 1)),
    ("(ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)", lambda row: (max(row - 3, 0), row + 1)),
    ("(ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)", lambda row: (max(row - 3, 0), row)),
    ("(ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", lambda row: (row, 7)),
    ("(ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)", lambda row: (row + 1, row + 4)),
    ("(ORDER BY ts RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", lambda row: ([0, 1, 2, 3, 3, 5, 6][row], 7)),
    ("(ORDER BY ts RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)", lambda row: ([0, 0, 0, 1, 1, 2, 3][row],
                                                                             [1, 2, 3, 5, 5, 6, 7][row])),
]  # fmt: skip


@pytest.mark.parametrize("call", ["zscore(v)", "mad(v)", "iqr(v, 1.5)"])
@pytest.mark.parametrize(("window", "frame"), FRAMES, ids=[each[0] for each in FRAMES])
def test_score_follows_its_definition(call: str, window: str, frame: object) -> None:
    name = call.split("(")[0]
    expected = [expected_score(name, value, VALUES[slice(*frame(row))]) for row, value in enumerate(VALUES)]  # type: ignore[operator]
    assert scores(f"anomaly_score_{call}", window) == [
        None if each is None else pytest.approx(each, rel=1e-9, abs=1e-9) for each in expected
    ]


def test_named_windows_are_scored_as_well() -> None:
    answer = ask("SELECT anomaly_score_mad(v) OVER w FROM t WINDOW w AS (ORDER BY ts)", table=TABLE)
    assert answer.column(0).to_pylist() == scores("anomaly_score_mad(v)", "(ORDER BY ts)")


def test_values_without_spread_score_zero_and_others_infinity() -> None:
    table = pa.table({"v": [0.1, 0.1, 0.1, 0.1, 0.2], "ts": range(5)})
    window = "(ORDER BY ts ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING)"
    for call in ("zscore(v)", "mad(v)", "iqr(v, 3)"):
        assert scores(f"anomaly_score_{call}", window, table)[3:] == [0.0, math.inf]


def test_negative_factor_gives_null() -> None:
    assert scores("anomaly_score_iqr(v, -1)", "()") == [None] * 7


def test_partitions_are_scored_apart() -> None:
    table = pa.table({"v": [1.0, 3.0, 10.0, 30.0], "g": ["a", "a", "b", "b"]})
    assert scores("anomaly_score_zscore(v)", "(PARTITION BY g)", table) == [1.0] * 4


def test_header_is_that_of_the_call() -> None:
    answer = ask("SELECT anomaly_score_iqr(v, 1.5) OVER (PARTITION BY v, ts ORDER BY ts) FROM t", table=TABLE)
    assert answer.column_names == [
        "anomaly_score_iqr(t.v,Float64(1.5)) PARTITION BY [t.v, t.ts] ORDER BY [t.ts ASC NULLS LAST] "
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    ]


@pytest.mark.parametrize(
    ("window", "frame"),
    [
        ("()", "'rows unbounded unbounded', ''"),
        ("(PARTITION BY a ORDER BY f(b, 1) DESC)", "'range unbounded 0', CAST(f(b, 1) AS STRING)"),
        ("(ORDER BY a ROWS 2 PRECEDING)", "'rows -2 0', ''"),
        ("(ORDER BY a, b ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)", "'rows -1 2', ''"),
        ("(ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)", "'rows unbounded unbounded', ''"),
    ],
)
def test_frame_is_told_where_the_text_says_it(window: str, frame: str) -> None:
    text = f"SELECT anomaly_score_mad(v) OVER {window} FROM t"
    assert edited(text) == f"SELECT anomaly_score_mad__frame(v, {frame}) OVER {window} FROM t"


@pytest.mark.parametrize(
    "window",
    [
        "w",
        "(w ORDER BY a)",
        "(ORDER BY a, b)",
        "(ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "(ORDER BY a RANGE BETWEEN INTERVAL '5 minutes' PRECEDING AND CURRENT ROW)",
    ],
)
def test_other_frames_are_left_to_the_query_engine(window: str) -> None:
    text = f"SELECT anomaly_score_mad(v) OVER {window} FROM t"
    assert edited(text) == text


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=3, max_size=40), st.booleans())
def test_growing_frames_score_as_each_of_them_alone(numbers: list[int], is_reversed: bool) -> None:
    values = np.array(numbers, np.float64)
    rows = len(values)
    begins = np.arange(rows) if is_reversed else np.zeros(rows, np.int64)
    ends = np.full(rows, rows) if is_reversed else np.arange(rows) + 1
    kinds: list[tuple[str, Score]] = [
        ("zscore", ZScore()), ("mad", MadScore()), ("iqr", IqrScore(np.full(rows, 1.5))),
    ]  # fmt: skip
    for name, score in kinds:
        found = score_frames(score, values, begins, ends)
        for row in range(rows):
            expected = expected_score(name, numbers[row], numbers[begins[row] : ends[row]])  # type: ignore[arg-type]
            assert found[row] == pytest.approx(math.nan if expected is None else expected, abs=1e-9, nan_ok=True)
