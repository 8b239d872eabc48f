"""What is recorded about regions in logs that are kept."""

from __future__ import annotations

from tsdb.engine.region.noting import CHANGED, CREATED, DISCARDED, FILES_REMOVED, HANDED_IN, NOTED
from tsdb.engine.rolling._past import IRREVERSIBLE


def test_events_have_the_texts_that_are_in_the_logs_of_earlier_versions() -> None:
    assert (NOTED, CREATED, CHANGED) == ("noted", "created", "changed")
    assert (DISCARDED, FILES_REMOVED, HANDED_IN) == (
        "rows in memory were discarded",
        "data files were removed by a range of time",
        "rows of a node that was lost were handed in",
    )
    assert {DISCARDED, FILES_REMOVED, HANDED_IN} == IRREVERSIBLE
