"""The tables of information_schema tell what the catalog and the regions know."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.query.information_schema.catalogs import LOGS, MONITOR, FakeCatalog, FakeRegions, make_context
from tsdb.engine import CompactionRecord, SegmentFacts
from tsdb.model import TableInfo
from tsdb.query import Channel
from tsdb.query.information_schema import (
    INFORMATION_TABLES,
    FlowRow,
    InformationContext,
    OpenConnection,
    RunningStatement,
    information_schema_of,
    information_table,
)
from tsdb.query.information_schema._cluster_view import OneNode
from tsdb.store import RequestFacts


def rows(name: str, context: InformationContext | None = None, **equal: Any) -> list[dict[str, Any]]:
    table = information_table(name, context or make_context())
    assert table is not None
    return [row for row in table.to_pylist() if all(row[key] == value for key, value in equal.items())]


@pytest.mark.parametrize("name", INFORMATION_TABLES)
def test_every_table_has_exactly_its_columns(name: str) -> None:
    table = information_table(name, make_context())
    assert table is not None
    assert table.schema.equals(information_schema_of(name), check_metadata=True)
    for column, field in zip(table.columns, table.schema, strict=True):
        assert field.nullable or column.null_count == 0, field.name


@pytest.mark.parametrize(
    ("name", "columns"),
    [("events", 24), ("files", 38), ("parameters", 16), ("profiling", 18), ("routines", 31), ("key_column_usage", 14)],
)
def test_tables_known_from_mysql_have_as_many_columns_as_there(name: str, columns: int) -> None:
    assert len(information_schema_of(name)) == columns


def test_a_table_nobody_knows_is_none() -> None:
    assert information_table("nonsense", make_context()) is None


def test_tables_lists_tables_views_and_what_nobody_created_by_database_and_name() -> None:
    found = [(row["table_schema"], row["table_name"], row["table_type"]) for row in rows("tables")]
    assert found == sorted(found)
    assert ("other", "logs", "BASE TABLE") in found
    assert ("public", "busy", "VIEW") in found
    assert ("public", "numbers", "LOCAL TEMPORARY") in found
    assert ("information_schema", "tables", "LOCAL TEMPORARY") in found


def test_tables_adds_up_the_regions_of_a_table() -> None:
    (row,) = rows("tables", table_name="monitor")
    assert (row["table_rows"], row["data_length"], row["avg_row_length"]) == (200, 20_000, 100)
    assert (row["engine"], row["version"], row["row_format"], row["temporary"]) == ("mito", 11, "Fixed", "N")
    assert row["create_options"] == "ttl=7days"
    assert row["table_comment"] == "machines"
    assert row["create_time"].timestamp() == 1_700_000_000


def test_tables_leaves_the_size_open_while_a_region_cannot_be_asked() -> None:
    context = make_context(regions=FakeRegions(gone=frozenset({1024})))
    (monitor,) = rows("tables", context, table_name="monitor")
    (logs,) = rows("tables", context, table_name="logs")
    assert monitor["table_rows"] is None
    assert logs["table_rows"] == 100


def test_columns_tells_types_keys_and_defaults() -> None:
    found = {row["column_name"]: row for row in rows("columns", table_name="monitor")}
    host, ts, load = found["host"], found["ts"], found["load"]
    assert (host["data_type"], host["tsdb_data_type"], host["column_key"]) == ("string", "String", "PRI")
    assert (host["character_maximum_length"], host["collation_name"]) == (2147483647, "utf8_bin")
    assert (ts["data_type"], ts["datetime_precision"], ts["column_key"]) == ("timestamp(3)", 3, "TIME INDEX")
    assert (ts["column_default"], ts["is_nullable"], ts["semantic_type"]) == ("current_timestamp()", "NO", "TIMESTAMP")
    assert (load["numeric_precision"], load["numeric_scale"], load["column_default"]) == (22, None, "0.5")
    assert (load["column_comment"], load["ordinal_position"]) == ("the host's load", 4)


def test_columns_names_types_the_way_ddl_does() -> None:
    found = {row["column_name"]: row for row in rows("columns", table_name="logs")}
    assert found["blob"]["data_type"] == "binary"
    assert found["count"]["data_type"] == "bigint unsigned"
    assert (found["count"]["numeric_precision"], found["count"]["numeric_scale"]) == (20, 0)
    assert (found["size"]["numeric_precision"], found["size"]["numeric_scale"]) == (10, 2)


def test_views_have_no_rows_in_columns() -> None:
    assert rows("columns", table_name="busy") == []


def test_key_column_usage_follows_the_order_of_the_primary_key() -> None:
    found = rows("key_column_usage", table_name="monitor")
    assert [(row["constraint_name"], row["ordinal_position"], row["column_name"]) for row in found] == [
        ("PRIMARY", 1, "zone"),
        ("PRIMARY", 2, "host"),
        ("TIME INDEX", 1, "ts"),
    ]
    assert {(row["table_catalog"], row["real_table_catalog"]) for row in found} == {("def", "tsdb")}


def test_a_table_without_tags_has_only_its_time_index_as_constraint() -> None:
    assert [row["constraint_type"] for row in rows("table_constraints", table_name="logs")] == ["TIME INDEX"]
    assert len(rows("table_constraints", table_name="monitor")) == 2


def test_statistics_lists_declared_indexes_beside_the_keys() -> None:
    found = rows("statistics", table_name="monitor")
    shown = [(row["index_name"], row["non_unique"], row["column_name"], row["tsdb_index_type"]) for row in found]
    assert shown == [
        ("INVERTED_INDEX_host", 1, "host", "inverted"),
        ("PRIMARY", 0, "zone", "dense"),
        ("PRIMARY", 0, "host", "dense"),
        ("SKIPPING_INDEX_host", 1, "host", "bloom_filter"),
        ("TIME INDEX", 1, "ts", None),
    ]
    (fulltext,) = rows("statistics", table_name="logs", index_type="FULLTEXT")
    assert fulltext["tsdb_index_type"] == "fulltext_bloom"


def test_partitions_has_a_row_for_every_region() -> None:
    found = rows("partitions", table_name="monitor")
    shown = [(row["partition_name"], row["partition_expression"], row["partition_description"]) for row in found]
    assert shown == [("p0", "zone", "zone < 5"), ("p1", "zone", "zone >= 5")]
    assert [row["tsdb_partition_id"] for row in found] == [1024 << 32, 1024 << 32 | 1]
    (single,) = rows("partitions", table_name="logs")
    assert (single["partition_name"], single["partition_expression"]) == ("p0", None)


def test_region_tables_tell_of_every_region() -> None:
    assert [row["peer_addr"] for row in rows("region_peers", table_name="monitor")] == ["127.0.0.1:4000"] * 2
    (info, _) = rows("region_info", table_id=1024)
    assert (info["state"], info["writable"], info["committed_sequence"]) == ("writable", True, 100)
    (first, second) = rows("region_statistics", table_id=1024)
    assert (first["region_rows"], first["sst_num"], second["region_number"]) == (100, 2, 1)
    assert (info["flushed_sequence"], info["manifest_version"]) == (80, 3)
    assert (first["written_bytes_since_open"], first["manifest_size"], first["disk_size"]) == (500, 70, 9070)


def test_file_tables_list_data_files_and_their_indexes() -> None:
    found = rows("ssts_manifest", table_id=1024)
    assert len(found) == 4, "two regions with two files each"
    assert {(row["num_rows"], row["num_series"], row["index_file_size"], row["visible"]) for row in found} == {
        (45, 5, 50, True)
    }
    (first, *_) = found
    assert (first["table_dir"], first["sequence"]) == ("data/tsdb/public/1024/", 40)
    assert (first["min_ts"].value, first["max_ts"].value) == (0, 499_000_000)
    stored = rows("ssts_storage")
    assert {row["file_size"] for row in stored} == {4500, 50}
    assert len([row for row in stored if "/1024/" in row["file_path"]]) == 8
    (index, *_) = rows("ssts_index_meta", table_id=1024)
    assert (index["target_key"], index["blob_size"]) == ("zone, host", 50)
    context = make_context(regions=FakeRegions(gone=frozenset({1024})))
    assert {row["table_id"] for row in rows("ssts_manifest", context)} == {1025}


def test_compactions_are_shown_of_tables_that_are_there() -> None:
    first, second = rows("compaction_history")
    assert (first["table_name"], first["table_schema"], first["state"]) == ("monitor", "public", "running")
    assert (first["progress"], second["progress"], first["write_amplification"]) == (0.25, 0.5, None)
    assert (first["input_files"], first["input_bytes"], first["end_time"]) == (2, 3000, None)


def test_segments_of_the_log_name_the_regions_that_need_them() -> None:
    (segment,) = rows("wal_segments")
    assert (segment["segment"], segment["state"], segment["size"]) == ("0000000000000007", "pinned", 4096)
    assert segment["pinning_regions"] == f"[{1024 << 32}]"
    assert segment["node_id"] == 0


def test_the_state_of_a_store_stands_beside_its_requests() -> None:
    fine, down = rows("storage_requests")
    assert (fine["store"], fine["requests"], fine["bytes"], fine["estimated_cost"]) == ("default", 3, 4096, 0.015)
    assert fine["since"].timestamp() == 0, "since the start of the server"
    assert (fine["state"], fine["reason"], fine["last_error"], fine["node_id"]) == ("ok", None, None, 0)
    assert (down["store"], down["state"], down["reason"], down["last_error"]) == ("cold", "down", *2 * ["no answer"])
    assert down["since"].timestamp() == 1_700_000_050


def test_what_a_datanode_has_is_shown_with_its_id() -> None:
    class OfNode(FakeRegions):
        def wal_segments(self) -> list[tuple[str, SegmentFacts]]:
            return [(path, replace(facts, node_id=3)) for path, facts in super().wal_segments()]

        def storage_requests(self) -> list[RequestFacts]:
            return [replace(each, node_id=3) for each in super().storage_requests()]

        def compactions(self) -> list[CompactionRecord]:
            return [replace(each, node_id=3) for each in super().compactions()]

    class View(OneNode):
        def node_of(self, region_id: int) -> int:
            return 1 + region_id % 2

    alone = make_context(regions=OfNode())
    context = replace(alone, cluster=View(alone))
    for table in ("wal_segments", "storage_requests", "compaction_history"):
        assert {row["node_id"] for row in rows(table, context)} == {3}
    for table in ("region_info", "ssts_manifest", "ssts_index_meta"):
        assert {row["node_id"] - row["region_id"] % 2 for row in rows(table, context)} == {1}
    assert {row["node_id"] for row in rows("ssts_storage", context)} == {1, 2}


def test_a_region_that_cannot_be_asked_hides_no_other() -> None:
    context = make_context(regions=FakeRegions(gone=frozenset({1024})))
    (gone, _) = rows("region_statistics", context, table_id=1024)
    assert (gone["state"], gone["reason"], gone["flush_state"]) == ("unavailable", "gone", None)
    assert {row["table_id"] for row in rows("region_info", context)} == {1025}
    assert {row["region_rows"] for row in rows("region_statistics", context, table_id=1024)} == {None}


def test_schemata_shows_pg_catalog_to_postgresql_only() -> None:
    seen = [row["schema_name"] for row in rows("schemata")]
    assert seen == ["information_schema", "other", "public", "tsdb_private"]
    context = make_context(channel=Channel.POSTGRES)
    assert "pg_catalog" in [row["schema_name"] for row in rows("schemata", context)]
    assert rows("schemata", schema_name="other")[0]["options"] == "'ttl'='1day'"


def test_views_shows_the_whole_statement() -> None:
    (row,) = rows("views")
    assert row["view_definition"] == "CREATE VIEW busy AS SELECT host FROM monitor"


def test_cluster_and_build_info_tell_of_this_node() -> None:
    (node,) = rows("cluster_info")
    assert (node["peer_type"], node["version"], node["peer_id"]) == ("STANDALONE", "1.2.3", 0)
    assert node["memory_usage_bytes"] > 0
    (build,) = rows("build_info")
    assert (build["git_commit_short"], build["pkg_version"]) == ("01234567", "1.2.3")


def test_process_list_measures_by_the_clock_of_the_server() -> None:
    running = RunningStatement("127.0.0.1:4000/1", "public", "SELECT 1", 1_700_000_098_500, client="10.0.0.1")
    context = replace(make_context(), processes=lambda: [running])
    (row,) = rows("process_list", context)
    assert row["elapsed_time"].total_seconds() == 1.5
    assert (row["catalog"], row["schemas"], row["client"]) == ("tsdb", "public", "10.0.0.1")


def test_the_list_of_mysql_has_connections_that_run_nothing_and_statements_without_one() -> None:
    running = RunningStatement(
        "127.0.0.1:4000/1", "public", "SELECT 1", 1_700_000_098_500, client="10.0.0.1", user="ann", connection=7
    )
    other = replace(running, id="127.0.0.1:4000/2", query="SELECT 2", user="bob", connection=9)
    idle = OpenConnection(8, Channel.POSTGRES, "cid", "metrics", "10.0.0.2", "", 0, 1_700_000_090_000)
    busy = replace(idle, id=7, user="ann", statement="SELECT 1", statement_start_ms=1_700_000_098_500)
    context = replace(make_context(), processes=lambda: [running, other], connections=lambda: [idle, busy])
    found = [tuple(row.values()) for row in rows("processlist", context)]
    assert found == [
        (8, "cid", "10.0.0.2", "metrics", "Sleep", 10, "", None),
        (7, "ann", "10.0.0.2", "metrics", "Query", 1, "executing", "SELECT 1"),
        (9, "bob", "10.0.0.1", "public", "Query", 1, "executing", "SELECT 2"),
    ]


def test_flows_are_shown_as_they_are_given() -> None:
    flow = FlowRow(1, "f", "CREATE FLOW f …", "tsdb.public.sink", "public", 10, 20, source_tables=("tsdb.public.t",))
    context = replace(make_context(), flows=lambda: [flow])
    (row,) = rows("flows", context)
    assert (row["flow_definition"], row["source_table_names"], row["source_table_ids"]) == (
        "CREATE FLOW f …",
        "tsdb.public.t",
        "[]",
    )
    assert rows("flow_statistics", context)[0]["flow_name"] == "f"


def test_table_semantics_lists_only_tables_that_say_something() -> None:
    said = MONITOR.changed(options={"tsdb.semantic.signal_type": "metric"})
    (row,) = rows("table_semantics", make_context(catalog=FakeCatalog([said, LOGS])))
    assert (row["table_name"], row["signal_type"], row["source"]) == ("monitor", "metric", None)


def test_thousands_of_tables_take_no_time_to_speak_of() -> None:
    many = [replace_name(LOGS, f"logs_{number:05}", 2000 + number) for number in range(5000)]
    context = make_context(catalog=FakeCatalog(many))
    started = time.perf_counter()
    for name in ("tables", "columns", "statistics", "partitions"):
        table = information_table(name, context)
        assert isinstance(table, pa.Table)
        assert len(table) >= 5000
    assert time.perf_counter() - started < 10


def replace_name(table: TableInfo, name: str, table_id: int) -> TableInfo:
    return replace(table, name=name, id=table_id)
