"""What is different through a frontend, and why: the one list of it.

Everything else of the suites that `make through-frontend` runs is answered as a standalone server answers it.
"""

from __future__ import annotations

from collections.abc import Mapping

IN_PROCESS = "looks into the process that has the regions, its files or its log"
OPTIONS = "chooses options of the engine in its process"
ORDER = "rows without ORDER BY come in any order where several threads read, as on a datanode"
LENT = "lends regions of this process to workers; those of other nodes are not lent"
ONE_NODE = "is about the one node that a standalone server is"

CASES: Mapping[tuple[str, str], str] = {
    ("compaction", "compact_region(4398046511104)"): "names the first region of a new cluster",
    ("compaction_history", "information_schema.wal_segments"): "each of three nodes has a log, and shares it",
    ("information_schema", "information_schema.cluster_info"): ONE_NODE,
}
"""Statements of case files, by the name of the file and a part of the text."""

PARTITIONED_CASES: Mapping[tuple[str, str], str] = {
    ("*", "SHOW CREATE TABLE"): "shows the partition rules",
    ("compaction", "information_schema.region_"): "a row for each region",
    ("compaction_history", "information_schema.region_statistics"): "a row for each region",
    ("compaction_history", "information_schema.compaction_history"): "rows are counted by region",
    ("compaction_history", "information_schema.ssts_manifest"): "each region has files of its own",
    ("compaction_history", "ADMIN verify_table('c')"): "each region has files of its own",
    ("information_schema", "information_schema.region_peers"): "a row for each region",
    ("information_schema", "information_schema.partitions"): "a row for each region",
    ("truncate_files", "SELECT k, v FROM u"): "which files lie in a range depends on the rows that share a file",
}
"""The same for tables that are divided."""

TESTS: Mapping[str, str] = {
    "tests/database/test_fulltext.py::test_a_damaged_index_costs_speed_only": IN_PROCESS,
    "tests/database/test_hostile_sql.py": "starts a database in a process of its own, which no frontend replaces",
    "tests/database/test_indexes.py::test_statements_on_few_series_use_the_index": OPTIONS,
    "tests/database/test_retention.py": "sets the clock of its process; datanodes have one of their own",
    "tests/query/selection/test_selection.py::test_a_selection_answers_what_the_planner_answers": ORDER,
    "tests/query/selection/test_selection.py::test_rows_of_several_files_come_in_the_order": ORDER,
    "tests/servers/fast_workers/test_promql.py": LENT,
    "tests/servers/http/test_influx.py::test_when_there_is_no_room_the_sender_is_told": IN_PROCESS,
    "tests/servers/http/test_prometheus_remote.py::test_what_was_acknowledged_is_there_after_a_crash": IN_PROCESS,
    "tests/servers/http/test_native_histograms.py::test_histograms_outlive_a_crash": IN_PROCESS,
}
"""Tests, by the beginnings of their names."""

PARTITIONED_TESTS: Mapping[str, str] = {
    "tests/database/showing/test_show.py::test_regions_have_a_leader": "a row for each region",
    "tests/database/writing/test_columns.py::test_a_table_that_never_stops_changing": "disturbs a write to one region",
}
"""The same for tables that are divided."""


def reason_to_skip(name: str, *, is_partitioned: bool) -> str | None:
    """Why a test is not run through a frontend; None if it is."""
    tests = {**TESTS, **PARTITIONED_TESTS} if is_partitioned else TESTS
    return next((reason for listed, reason in tests.items() if name.startswith(listed)), None)


def is_different(file: str, text: str, *, is_partitioned: bool) -> bool:
    """Whether a statement of a case file is listed."""
    listed = {**CASES, **PARTITIONED_CASES} if is_partitioned else CASES
    return any(name in ("*", file) and part in text for name, part in listed)
