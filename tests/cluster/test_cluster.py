"""A frontend over three datanodes does what a standalone server does."""

from __future__ import annotations

import time
from collections.abc import Sequence

import httpx
import psycopg
import pymysql
import pytest

from tests.cluster.running import Cluster, wait_for
from tests.telemetry.collector import Collector, attributes

pytestmark = pytest.mark.timeout(600)

PARTITIONED = (
    "CREATE TABLE {name} (host STRING, ts TIMESTAMP TIME INDEX, usage DOUBLE, PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'h3', host >= 'h3' AND host < 'h6', host >= 'h6')"
)


def make_rows(hosts: int, count: int) -> list[tuple[str, int, float]]:
    return [(f"h{host}", 1000 * at, host + at / 10) for host in range(hosts) for at in range(count)]


def insert(cluster: Cluster, table: str, rows: Sequence[tuple[str, int, float]]) -> None:
    values = ", ".join(f"('{host}', {ts}, {usage})" for host, ts, usage in rows)
    assert cluster.sql(f"INSERT INTO {table} VALUES {values}") == len(rows)


def test_the_regions_of_a_table_are_on_different_nodes(cluster: Cluster) -> None:
    cluster.sql(PARTITIONED.format(name="spread"))
    assert sorted(cluster.place_of("spread").values()) == [1, 2, 3]
    rows = cluster.sql("SELECT peer_type, count(*) FROM information_schema.cluster_info GROUP BY 1 ORDER BY 1")
    assert rows == [["DATANODE", 3], ["FRONTEND", 2], ["METASRV", 1]]
    unknown = cluster.sql("SELECT DISTINCT peer_type FROM information_schema.cluster_info WHERE uptime IS NULL")
    assert unknown == [["METASRV"]], "when a metadata server was started is not known"


def test_rows_of_all_regions_are_found(cluster: Cluster) -> None:
    cluster.sql(PARTITIONED.format(name="cpu"))
    rows = make_rows(9, 20)
    insert(cluster, "cpu", rows)
    assert cluster.sql("SELECT count(*), sum(usage) FROM cpu") == [[180, pytest.approx(sum(row[2] for row in rows))]]
    assert cluster.sql("SELECT host, max(usage) FROM cpu GROUP BY host ORDER BY host") == [
        [f"h{host}", pytest.approx(host + 1.9)] for host in range(9)
    ]
    assert cluster.sql("SELECT usage FROM cpu WHERE host = 'h4' AND ts = 3000") == [[4.3]]
    assert cluster.sql(
        "SELECT host, last_value(usage ORDER BY ts) FROM cpu WHERE host > 'h6' GROUP BY host ORDER BY 1"
    ) == [
        ["h7", pytest.approx(8.9)],
        ["h8", pytest.approx(9.9)],
    ]
    joined = "SELECT count(*) FROM cpu a JOIN cpu b ON a.host = b.host AND a.ts = b.ts"
    assert cluster.sql(joined) == [[180]]


def test_explain_tells_what_datanodes_read(cluster: Cluster) -> None:
    cluster.sql(PARTITIONED.format(name="explained"))
    insert(cluster, "explained", make_rows(9, 20))
    for query in (
        "SELECT usage FROM explained WHERE host = 'h4' LIMIT 5",
        "SELECT host, max(usage) FROM explained WHERE host = 'h4' GROUP BY host",
        "SELECT count(*) FROM explained a JOIN explained b ON a.ts = b.ts",
    ):
        plan = str(cluster.sql(f"EXPLAIN ANALYZE {query}"))
        assert "rows_read=" in plan, plan
    assert "regions=1 of 3" in str(cluster.sql("EXPLAIN ANALYZE SELECT usage FROM explained WHERE host = 'h4'"))


def test_the_other_frontend_sees_what_this_one_does(cluster: Cluster) -> None:
    cluster.sql("CREATE TABLE shared (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    cluster.wait_until("SHOW TABLES LIKE 'shared'", [["shared"]], frontend=1)
    cluster.sql("INSERT INTO shared VALUES (1, 1.5)", frontend=1)
    assert cluster.sql("SELECT v FROM shared") == [[1.5]]
    cluster.sql("ALTER TABLE shared ADD COLUMN w BIGINT")
    # The other one may not have heard of the column: the datanode refuses rows of the old schema, and it asks anew.
    cluster.sql("INSERT INTO shared (ts, v) VALUES (2, 2.5)", frontend=1)
    cluster.wait_until("SELECT v, w FROM shared ORDER BY ts", [[1.5, None], [2.5, None]], frontend=1)
    cluster.sql("DROP TABLE shared")
    cluster.wait_until("SHOW TABLES LIKE 'shared'", [], frontend=1)


def test_line_protocol_and_promql(cluster: Cluster) -> None:
    now = int(time.time())
    lines = "\n".join(
        f"net,host=h{host} rx={host}i,tx={at}i {now - at}000000000" for host in range(8) for at in range(30)
    )
    response = httpx.post(f"{cluster.url}/v1/influxdb/write", params={"db": "public"}, content=lines, timeout=60)
    assert response.status_code == 204, response.text
    assert cluster.sql("SELECT count(*) FROM net") == [[240]]
    answer = httpx.get(
        f"{cluster.url}/v1/prometheus/api/v1/query",
        params={"query": 'sum by (host) (net{__field__="rx"})', "time": str(now)},
        timeout=60,
    ).json()
    assert answer["status"] == "success", answer
    found = {each["metric"]["host"]: each["value"][1] for each in answer["data"]["result"]}
    assert found == {f"h{host}": str(host) for host in range(8)}


def test_a_query_is_one_trace_from_the_frontend_to_the_scans_on_the_datanodes(
    cluster: Cluster, collector: Collector
) -> None:
    cluster.sql(PARTITIONED.format(name="followed"))
    insert(cluster, "followed", make_rows(9, 20))
    regions = set(cluster.place_of("followed"))
    check_trace(cluster, collector, "SELECT usage FROM followed WHERE usage > 1", f"{0xC1:032x}", "scan", regions)
    grouped = "SELECT host, max(usage) FROM followed GROUP BY host"
    check_trace(cluster, collector, grouped, f"{0xC2:032x}", "cells", regions)
    joined = "SELECT count(*) FROM followed a JOIN followed b ON a.host = b.host AND a.ts = b.ts"
    check_trace(cluster, collector, joined, f"{0xC3:032x}", "scan", regions)


def check_trace(cluster: Cluster, collector: Collector, text: str, trace_id: str, verb: str, regions: set[int]) -> None:
    """Ask for something under a trace id: all regions are read by datanodes, as parts of the request."""
    headers = {"traceparent": f"00-{trace_id}-00000000000000aa-01"}
    response = httpx.post(f"{cluster.url}/v1/sql", data={"sql": text}, headers=headers, timeout=60)
    assert response.status_code == 200, response.text

    def scans() -> set[tuple[str, object]]:
        """The regions that were read, each with the service that said so."""
        return {
            (service, attributes(span)["region"])
            for service, span in collector.spans_by_service(trace_id)
            if span.name == f"region.{verb}"
        }

    collector.wait_until(lambda: {region for _, region in scans()} == regions)
    assert {service for service, _ in scans()} == {"tsdb-datanode"}
    collector.wait_until(lambda: "POST /v1/sql" in {span.name for span in collector.spans(trace_id)})
    check_tree(collector, trace_id)


def check_tree(collector: Collector, trace_id: str) -> None:
    """From every span on a datanode a path leads to the request: through a call of the frontend."""
    # A span may arrive before the one that it is in.
    by_id = {span.span_id: (service, span) for service, span in collector.spans_by_service(trace_id)}

    def has_all_parents() -> bool:
        by_id.update({span.span_id: (service, span) for service, span in collector.spans_by_service(trace_id)})
        return all(span.parent_span_id in by_id or span.name == "POST /v1/sql" for _, span in by_id.values())

    collector.wait_until(has_all_parents)
    for service, span in by_id.values():
        path = [service]
        while span.name != "POST /v1/sql":
            service, span = by_id[span.parent_span_id]
            path.append(service)
        assert path == sorted(path), path  # datanode before frontend
        assert path[-1] == "tsdb-frontend"
    instances = {
        attributes(of_resource.resource)["service.instance.id"]
        for request in collector.requests
        for of_resource in request.resource_spans
        if attributes(of_resource.resource)["service.name"] == "tsdb-datanode"
    }
    assert instances == {"1", "2", "3"}


def test_writes_and_changes_of_tables_are_traced_to_other_nodes(cluster: Cluster, collector: Collector) -> None:
    trace_id = f"{0xD1:032x}"
    response = httpx.post(
        f"{cluster.url}/v1/sql",
        data={
            "sql": "CREATE TABLE noted (ts TIMESTAMP TIME INDEX, v DOUBLE); INSERT INTO noted VALUES (1, 1.5); "
            "ADMIN flush_table('noted')"
        },
        headers={"traceparent": f"00-{trace_id}-00000000000000aa-01"},
        timeout=60,
    )
    assert response.status_code == 200, response.text
    wanted = {
        ("tsdb-frontend", "metasrv.Change"),
        ("tsdb-metasrv", "metasrv.Change"),
        ("tsdb-frontend", "datanode.write"),
        ("tsdb-datanode", "datanode.write"),
        ("tsdb-datanode", "region.write"),
        ("tsdb-datanode", "log.append"),
        ("tsdb-datanode", "datanode.flush"),
    }
    collector.wait_until(
        lambda: wanted <= {(service, span.name) for service, span in collector.spans_by_service(trace_id)}
    )


def test_slow_statements_of_a_frontend_are_rows_of_a_table(cluster: Cluster) -> None:
    # Metadata servers and datanodes have a part in it: that takes longer than a millisecond.
    cluster.sql("CREATE TABLE made_slowly (ts TIMESTAMP TIME INDEX)")
    cluster.wait_until(
        "SELECT database, protocol, threshold, cost >= 1, is_promql FROM tsdb_private.slow_queries "
        "WHERE query = 'CREATE TABLE made_slowly (ts TIMESTAMP TIME INDEX)'",
        [["public", "http", 1, True, False]],
        frontend=1,
    )


def test_mysql_and_postgresql(cluster: Cluster) -> None:
    frontend = cluster.frontends[0].running
    port = frontend.port_of("MySQL")
    with (
        pymysql.connect(host="127.0.0.1", port=port, user="me", database="public") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE by_mysql (ts TIMESTAMP TIME INDEX, v BIGINT)")
        cursor.execute("INSERT INTO by_mysql VALUES (1, 7), (2, 8)")
        cursor.execute("SELECT sum(v) FROM by_mysql")
        assert cursor.fetchone() == (15,)
    address = f"host=127.0.0.1 port={frontend.port_of('Postgres')} user=me dbname=public"
    with psycopg.connect(address, autocommit=True) as session:
        assert session.execute("SELECT v FROM by_mysql ORDER BY ts").fetchall() == [(7,), (8,)]


def test_flush_compact_delete_and_truncate(cluster: Cluster) -> None:
    cluster.sql(PARTITIONED.format(name="kept"))
    rows = make_rows(9, 10)
    for at in range(3):
        insert(cluster, "kept", rows[at::3])
        cluster.sql("ADMIN flush_table('kept')")
    cluster.sql("ADMIN compact_table('kept')")
    assert cluster.sql("SELECT count(*) FROM kept") == [[90]]
    assert cluster.sql("DELETE FROM kept WHERE host = 'h1'") == 10
    assert cluster.sql("SELECT count(*) FROM kept") == [[80]]
    (files,) = cluster.sql(
        "SELECT sum(sst_num) FROM information_schema.region_statistics s JOIN information_schema.tables t "
        "ON s.table_id = t.table_id WHERE t.table_name = 'kept'"
    )
    assert files[0] >= 3
    cluster.sql("TRUNCATE TABLE kept")
    assert cluster.sql("SELECT count(*) FROM kept") == [[0]]


def test_errors_are_those_of_a_standalone_server(cluster: Cluster) -> None:
    def code(statement: str) -> int:
        answer = httpx.post(f"{cluster.url}/v1/sql", data={"sql": statement}, timeout=60).json()
        return int(answer["code"])

    cluster.sql("CREATE TABLE twice (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    assert code("CREATE TABLE twice (ts TIMESTAMP TIME INDEX, v DOUBLE)") == 4000
    assert code("SELECT * FROM nowhere") == 4001
    assert code("DROP TABLE nowhere") == 4001
    assert code("ALTER TABLE twice DROP COLUMN nowhere") == 4002
    assert code("CREATE DATABASE public") == 1004
    assert code("USE nowhere") == 4004


def test_users_of_one_frontend_are_users_of_the_other(cluster: Cluster) -> None:
    def names(frontend: int) -> set[str]:
        return {row[0] for row in cluster.sql("SHOW USERS", frontend=frontend)}

    cluster.sql("CREATE USER ann IDENTIFIED BY 'secret-1'")
    assert "ann" in names(0)
    wait_for(lambda: "ann" in names(1))
    cluster.sql("DROP USER ann", frontend=1)
    wait_for(lambda: "ann" not in names(0))
