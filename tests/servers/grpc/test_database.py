"""The database service: rows and columns in, deletes, definitions, statements, and what is refused."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tests.servers.grpc.running import RunningServer, trailer
from tsdb.servers.grpc.proto import greptime_pb2 as v1

GOLDEN = bytes.fromhex(
    "0a141a0a0a080a0275311202703122067075626c6963326e0a6c0a0b73656e736f725f64617461125d0a0d0a096465766963655f6964100c"
    "0a080a027473101018020a110a0b74656d7065726174757265100a1801121b0a046a0264310a088801d088ec8ff7230a09510000000000"
    "80374012120a046a0264320a088801d188ec8ff7230a00"
)
"""As a client sent it: two rows of the table sensor_data, as user u1, one temperature missing."""

Cell = Any
_FIELDS = {each.number: each.name for each in v1.Value.DESCRIPTOR.fields}


def schema(name: str, kind: int, semantic: int = v1.FIELD, **extension: Any) -> v1.ColumnSchema:
    made = v1.ColumnSchema(column_name=name, datatype=kind, semantic_type=semantic)
    if extension:
        made.datatype_extension.CopyFrom(v1.ColumnDataTypeExtension(**extension))
    return made


def value_field(kind: int) -> str:
    special = {v1.BOOLEAN: 11, v1.BINARY: 12, v1.STRING: 13, v1.JSON: 13, v1.VECTOR: 12}
    return _FIELDS[special.get(kind, kind if kind <= v1.FLOAT64 else kind + 1)]


def row(columns: list[v1.ColumnSchema], cells: list[Cell]) -> v1.Row:
    pairs = zip(columns, cells, strict=True)
    return v1.Row(values=[v1.Value() if c is None else v1.Value(**{value_field(s.datatype): c}) for s, c in pairs])


def rows(table: str, columns: list[v1.ColumnSchema], *lines: list[Cell]) -> v1.RowInsertRequest:
    given = v1.Rows(schema=columns, rows=[row(columns, line) for line in lines])
    return v1.RowInsertRequest(table_name=table, rows=given)


def insert(*requests: v1.RowInsertRequest, dbname: str = "public") -> v1.GreptimeRequest:
    made = v1.GreptimeRequest(row_inserts=v1.RowInsertRequests(inserts=requests))
    made.header.dbname = dbname
    return made


TS = schema("ts", v1.TIMESTAMP_MILLISECOND, v1.TIMESTAMP)
HOST = schema("host", v1.STRING, v1.TAG)
LATE = 253_370_764_800_000
"""A time at which nothing has expired."""


def test_the_captured_request_of_a_client_is_two_rows(guarded: RunningServer) -> None:
    raw = guarded.call("greptime.v1.GreptimeDatabase/Handle", GOLDEN)
    answer = v1.GreptimeResponse.FromString(raw)
    assert answer.affected_rows.value == 2
    assert answer.header.status.status_code == 0
    found = guarded.sql("SELECT device_id, CAST(ts AS BIGINT) AS ts, temperature FROM sensor_data ORDER BY device_id")
    assert found == [
        {"device_id": "d1", "ts": 1234567890000, "temperature": 23.5},
        {"device_id": "d2", "ts": 1234567890001, "temperature": None},
    ]


def test_every_type_of_a_column_arrives_as_it_was_sent(served: RunningServer) -> None:
    columns = [
        HOST,
        schema("b", v1.BOOLEAN),
        schema("i8", v1.INT8),
        schema("i16", v1.INT16),
        schema("i32", v1.INT32),
        schema("i64", v1.INT64),
        schema("u8", v1.UINT8),
        schema("u16", v1.UINT16),
        schema("u32", v1.UINT32),
        schema("u64", v1.UINT64),
        schema("f32", v1.FLOAT32),
        schema("f64", v1.FLOAT64),
        schema("bin", v1.BINARY),
        schema("s", v1.STRING),
        schema("d", v1.DATE),
        schema("dt", v1.DATETIME),
        schema("t0", v1.TIMESTAMP_SECOND),
        schema("t9", v1.TIMESTAMP_NANOSECOND),
        schema("n", v1.DECIMAL128, decimal_type=v1.DecimalTypeExtension(precision=10, scale=2)),
        schema("j", v1.JSON),
        schema("v", v1.VECTOR, vector_type=v1.VectorTypeExtension(dim=2)),
        TS,
    ]
    minus = v1.Decimal128(hi=-1, lo=-12345)
    cells = ["a", True, -128, -32768, -(1 << 31), -(1 << 63), 255, 65535, (1 << 32) - 1, (1 << 64) - 1]
    cells += [1.5, 2.25, b"\0\xff", "ü", 19000, 1_000_001, 7, 8, minus, '{"b": [], "a": 1}', b"\0\0\x80?\0\0\0@", 1000]
    empty: list[Cell] = ["b", *[None] * 20, 2000]
    assert served.handle(insert(rows("kinds", columns, cells, empty))) == 2
    (full, bare) = served.sql("SELECT * FROM kinds ORDER BY host")
    assert [full[name] for name in ("b", "i8", "i16", "i32", "i64")] == cells[1:6]
    assert [full[name] for name in ("u8", "u16", "u32", "u64", "f32", "f64", "bin", "s")] == cells[6:14]
    assert str(full["d"]) == "2022-01-08"
    assert str(full["n"]) == "-123.45"
    assert full["j"] == '{"a":1,"b":[]}'
    assert full["v"] == cells[20]
    assert {name for name, cell in bare.items() if cell is not None} == {"host", "ts"}
    described = {each["Column"]: each["Type"] for each in served.sql("DESC TABLE kinds")}
    assert described["j"] == "Json"
    assert described["v"] == "Vector(2)"
    assert described["n"] == "Decimal(10, 2)"
    assert described["dt"] == "TimestampMicrosecond"


def test_a_new_table_has_the_columns_in_the_order_of_the_request(served: RunningServer) -> None:
    columns = [schema("v", v1.FLOAT64), HOST, TS, schema("dc", v1.STRING, v1.TAG)]
    assert served.handle(insert(rows("ordered", columns, [1.0, "a", 1, "x"]))) == 1
    described = served.sql("DESC TABLE ordered")
    assert [(each["Column"], each["Semantic Type"]) for each in described] == [
        ("v", "FIELD"),
        ("host", "TAG"),
        ("ts", "TIMESTAMP"),
        ("dc", "TAG"),
    ]


def test_columns_that_a_table_lacks_are_added_and_a_time_of_another_name_is_the_tables(served: RunningServer) -> None:
    assert served.handle(insert(rows("grown", [HOST, TS, schema("v", v1.INT64)], ["a", 1, 5]))) == 1
    other = [HOST, schema("when", v1.TIMESTAMP_SECOND, v1.TIMESTAMP), schema("w", v1.STRING)]
    assert served.handle(insert(rows("grown", other, ["a", 2, "x"]))) == 1
    found = served.sql("SELECT host, CAST(ts AS BIGINT) AS ts, v, w FROM grown ORDER BY ts")
    assert found == [{"host": "a", "ts": 1, "v": 5, "w": None}, {"host": "a", "ts": 2000, "v": None, "w": "x"}]


def test_several_tables_are_written_or_none(served: RunningServer) -> None:
    assert served.handle(insert(rows("typed", [HOST, TS, schema("v", v1.INT64)], ["a", 1, 5]))) == 1
    good = rows("fresh", [HOST, schema("t", v1.TIMESTAMP_SECOND, v1.TIMESTAMP), schema("v", v1.INT64)], ["a", 1, 5])
    bad = rows("typed", [HOST, TS, schema("v", v1.STRING)], ["a", 2, "x"])
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(insert(good, bad))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert trailer(caught.value, "x-greptime-err-code") == "1004"
    assert trailer(caught.value, "x-greptime-err-retry-hint") == "non_retryable"
    assert "column v of table typed has the type Int64" in caught.value.details()
    assert served.sql("SHOW TABLES LIKE 'fresh'") == []


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (insert(rows("x", [HOST, schema("v", v1.INT64)], ["a", 1])), "expected one column of the semantic TIMESTAMP"),
        (insert(rows("x", [HOST, TS, TS], ["a", 1, 1])), "`ts` is duplicated"),
        (insert(rows("", [TS], [1])), "a table needs a name"),
        (insert(rows("x", [schema("", v1.INT8), TS], [1, 1])), "a column needs a name"),
        (insert(rows("x", [HOST, TS], ["a", None])), "row 0: column ts is not null but input has null"),
        (insert(rows("x", [schema("i", v1.INT8), TS], [300, 1])), "column i: a value is not of the type Int8"),
        (insert(rows("x", [schema("j", v1.JSON), TS], ["{", 1])), "column j: a value is not of the type Json"),
        (insert(rows("x", [schema("ts", v1.INT64, v1.TIMESTAMP)], [1])), "Int64 is not a type of timestamps"),
        (
            insert(rows("x", [schema("v", v1.VECTOR, vector_type=v1.VectorTypeExtension(dim=3)), TS], [b"1", 1])),
            "expected 12 bytes, received 1",
        ),
        (v1.GreptimeRequest(), "contains nothing"),
        (v1.GreptimeRequest(ddl=v1.DdlRequest()), "no definition"),
        (v1.GreptimeRequest(query=v1.QueryRequest()), "has no query"),
    ],
)
def test_a_request_that_cannot_be_is_refused_with_its_reason(
    served: RunningServer, request_: v1.GreptimeRequest, text: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in caught.value.details()
    assert served.sql("SHOW TABLES LIKE 'x'") == []


def test_a_value_of_another_type_than_its_column_is_refused_with_its_place(served: RunningServer) -> None:
    columns = [HOST, schema("v", v1.INT64), TS]
    request = insert(rows("x", columns, ["a", 1, 1], ["b", 2, 2]))
    request.row_inserts.inserts[0].rows.rows[1].values[1].CopyFrom(v1.Value(string_value="2"))
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request)
    assert caught.value.details() == "table x, row 1: column v: expected the field 4 of a value, received 13"


def test_a_row_with_too_few_values_is_refused(served: RunningServer) -> None:
    request = insert(rows("x", [HOST, TS], ["a", 1]))
    del request.row_inserts.inserts[0].rows.rows[0].values[1]
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request)
    assert caught.value.details() == "table x, row 0: the row has 1 values, expected 2, one for each column"


def test_a_type_that_no_column_has_is_refused(served: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(insert(rows("x", [schema("t", v1.TIME_SECOND), TS])))
    assert caught.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
    assert "column t" in caught.value.details()


def test_a_database_that_is_not_there_is_not_created(served: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(insert(rows("x", [HOST, TS], ["a", 1]), dbname="nowhere"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert trailer(caught.value, "x-greptime-err-code") == "4004"
    assert trailer(caught.value, "x-tsdb-err-code") == "4004"


def test_the_database_comes_from_the_header_or_the_metadata(served: RunningServer) -> None:
    served.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    request = insert(rows("named", [HOST, TS], ["a", 1]), dbname="greptime-elsewhere")
    assert served.handle(request) == 1
    request = insert(rows("named", [HOST, TS], ["b", 1]), dbname="")
    assert served.handle(request, metadata=[("x-greptime-db-name", "elsewhere")]) == 1
    request.header.schema = "elsewhere"
    request.header.catalog = "tsdb"
    assert served.handle(request) == 1
    assert served.sql("SELECT host FROM elsewhere.named ORDER BY host") == [{"host": "a"}, {"host": "b"}]


def test_hints_are_options_of_a_new_table(served: RunningServer) -> None:
    request = insert(rows("hinted", [HOST, TS, schema("v", v1.INT8)], ["a", LATE, 1], ["a", LATE, 2]))
    assert served.handle(request, metadata=[("x-greptime-hints", "ttl=7d, append_mode=true")]) == 2
    made = served.sql("SHOW CREATE TABLE hinted")[0]["Create Table"]
    assert "append_mode = 'true'" in made
    assert "ttl = '7days'" in made or "ttl = '7d'" in made
    assert len(served.sql("SELECT * FROM hinted")) == 2
    single = insert(rows("hinted2", [HOST, TS], ["a", 1]))
    assert served.handle(single, metadata=[("x-greptime-hint-ttl", "7d")]) == 1
    assert "ttl" in served.sql("SHOW CREATE TABLE hinted2")[0]["Create Table"]
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(insert(rows("never", [TS], [1])), metadata=[("x-greptime-hints", "auto_create_table=false")])
    assert "auto_create_table" in caught.value.details()


def test_the_hint_physical_table_makes_a_metric(served: RunningServer) -> None:
    request = insert(rows("load1", [HOST, TS, schema("v", v1.FLOAT64)], ["a", 1, 0.5]))
    assert served.handle(request, metadata=[("x-greptime-hints", "physical_table=phy")]) == 1
    assert served.sql("SHOW TABLES LIKE 'phy'")
    assert "ENGINE=metric" in served.sql("SHOW CREATE TABLE load1")[0]["Create Table"]
    assert served.sql("SELECT host FROM load1") == [{"host": "a"}]


def column(name: str, kind: int, semantic: int, mask: bytes = b"", **values: Any) -> v1.Column:
    made = v1.Column.Values(**values)
    return v1.Column(column_name=name, datatype=kind, semantic_type=semantic, values=made, null_mask=mask)


def test_columns_are_rows_with_nulls_where_the_mask_says(served: RunningServer) -> None:
    columns = [
        column("host", v1.STRING, v1.TAG, string_values=["a", "b", "c"]),
        column("v", v1.FLOAT64, v1.FIELD, b"\x02", f64_values=[1.5, 2.5]),
        column("n", v1.UINT8, v1.FIELD, b"\x07"),
        column("ts", v1.TIMESTAMP_NANOSECOND, v1.TIMESTAMP, timestamp_nanosecond_values=[1, 2, 3]),
    ]
    request = v1.InsertRequest(table_name="columnar", columns=columns, row_count=3)
    assert served.handle(v1.GreptimeRequest(inserts=v1.InsertRequests(inserts=[request]))) == 3
    assert served.sql("SELECT host, v, n FROM columnar ORDER BY host") == [
        {"host": "a", "v": 1.5, "n": None},
        {"host": "b", "v": None, "n": None},
        {"host": "c", "v": 2.5, "n": None},
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (column("v", v1.INT8, v1.FIELD, i8_values=[1]), "1 values and 0 nulls are not 2 rows"),
        (column("v", v1.INT8, v1.FIELD, i16_values=[1, 2]), "expected i8_values, received i16_values"),
        (column("v", v1.INT8, v1.FIELD, i8_values=[1, 200]), "not of the type Int8"),
    ],
)
def test_columns_that_do_not_add_up_are_refused(served: RunningServer, given: v1.Column, text: str) -> None:
    time = column("ts", v1.TIMESTAMP_SECOND, v1.TIMESTAMP, timestamp_second_values=[1, 2])
    request = v1.InsertRequest(table_name="x", columns=[given, time], row_count=2)
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(v1.GreptimeRequest(inserts=v1.InsertRequests(inserts=[request])))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in caught.value.details()


def delete(*requests: v1.RowInsertRequest) -> v1.GreptimeRequest:
    deletes = [v1.RowDeleteRequest(table_name=each.table_name, rows=each.rows) for each in requests]
    return v1.GreptimeRequest(row_deletes=v1.RowDeleteRequests(deletes=deletes))


def test_rows_are_deleted_by_tags_and_time(served: RunningServer) -> None:
    columns = [HOST, TS, schema("v", v1.INT64)]
    assert served.handle(insert(rows("gone", columns, ["a", 1, 1], ["a", 2, 2], ["b", 1, 3]))) == 3
    assert served.handle(delete(rows("gone", [HOST, TS], ["a", 1], ["c", 9]))) == 2
    assert served.sql("SELECT v FROM gone ORDER BY v") == [{"v": 2}, {"v": 3}]
    keys = [
        column("host", v1.STRING, v1.TAG, string_values=["b"]),
        column("ts", v1.TIMESTAMP_MILLISECOND, v1.TIMESTAMP, timestamp_millisecond_values=[1]),
    ]
    request = v1.DeleteRequest(table_name="gone", key_columns=keys, row_count=1)
    assert served.handle(v1.GreptimeRequest(deletes=v1.DeleteRequests(deletes=[request]))) == 1
    assert served.sql("SELECT v FROM gone") == [{"v": 2}]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (delete(rows("nothing_there", [HOST, TS], ["a", 1])), grpc.StatusCode.NOT_FOUND),
        (delete(rows("kept", [schema("other", v1.STRING, v1.TAG), TS], ["a", 1])), grpc.StatusCode.NOT_FOUND),
        (delete(rows("kept", [schema("host", v1.INT64, v1.TAG), TS], [1, 1])), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_a_delete_that_does_not_fit_its_table_is_refused(
    served: RunningServer, request_: v1.GreptimeRequest, code: grpc.StatusCode
) -> None:
    served.handle(insert(rows("kept", [HOST, TS], ["a", 1])))
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request_)
    assert caught.value.code() is code
    assert len(served.sql("SELECT * FROM kept")) == 1


def ddl(**expr: Any) -> v1.GreptimeRequest:
    return v1.GreptimeRequest(ddl=v1.DdlRequest(**expr))


def test_definitions_make_views(served: RunningServer) -> None:
    def make(**said: Any) -> None:
        served.handle(ddl(create_view=v1.CreateViewExpr(schema_name="public", view_name="The-View", **said)))

    make(definition="SELECT 1 AS a, 2 AS b")
    assert served.sql('SELECT * FROM "The-View"') == [{"a": 1, "b": 2}]
    make(definition="CREATE VIEW other AS SELECT 3 AS a", create_if_not_exists=True)
    assert served.sql('SELECT a FROM "The-View"') == [{"a": 1}]
    with pytest.raises(grpc.RpcError):
        make(definition="SELECT 3")
    make(definition="CREATE VIEW other (x) AS SELECT 3", or_replace=True)
    assert served.sql('SELECT * FROM "The-View"') == [{"x": 3}]
    make(definition="SELECT 4, 5", columns=["p", "q"], or_replace=True)
    assert served.sql('SELECT * FROM "The-View"') == [{"p": 4, "q": 5}]
    served.handle(ddl(drop_view=v1.DropViewExpr(view_name="The-View")))
    assert served.sql("SHOW VIEWS") == []


def test_definitions_make_change_and_drop_databases_and_tables(served: RunningServer) -> None:
    served.handle(ddl(create_database=v1.CreateDatabaseExpr(schema_name="made", options={"ttl": "7d"})))
    served.handle(ddl(create_database=v1.CreateDatabaseExpr(schema_name="made", create_if_not_exists=True)))
    defs = [
        v1.ColumnDef(name="host", data_type=v1.STRING, is_nullable=True, semantic_type=v1.TAG),
        v1.ColumnDef(
            name="ts",
            data_type=v1.TIMESTAMP_MILLISECOND,
            semantic_type=v1.TIMESTAMP,
            default_constraint=b'{"Function":"current_timestamp()"}',
        ),
        v1.ColumnDef(name="v", data_type=v1.INT64, semantic_type=v1.FIELD, default_constraint=b'{"Value":{"Int64":7}}'),
    ]
    made = v1.CreateTableExpr(
        schema_name="made", table_name="t", desc="about t", column_defs=defs, time_index="ts", primary_keys=["host"]
    )
    served.handle(ddl(create_table=made))
    text = served.sql("SHOW CREATE TABLE made.t")[0]["Create Table"]
    assert '"v" BIGINT NOT NULL DEFAULT 7' in text
    assert "TIME INDEX" in text
    assert 'PRIMARY KEY ("host")' in text
    added = v1.AddColumn(column_def=v1.ColumnDef(name="dc", data_type=v1.STRING, is_nullable=True))
    named = {"schema_name": "made", "table_name": "t"}
    served.handle(ddl(alter_table=v1.AlterTableExpr(**named, add_columns=v1.AddColumns(add_columns=[added]))))
    assert 'PRIMARY KEY ("host", "dc")' in served.sql("SHOW CREATE TABLE made.t")[0]["Create Table"]
    dropped = v1.DropColumns(drop_columns=[v1.DropColumn(name="v")])
    served.handle(ddl(alter_table=v1.AlterTableExpr(**named, drop_columns=dropped)))
    options = v1.SetTableOptions(table_options=[v1.Option(key="ttl", value="1d")])
    served.handle(ddl(alter_table=v1.AlterTableExpr(**named, set_table_options=options)))
    assert "ttl = '1" in served.sql("SHOW CREATE TABLE made.t")[0]["Create Table"]
    served.handle(ddl(alter_table=v1.AlterTableExpr(**named, rename_table=v1.RenameTable(new_table_name="t2"))))
    served.sql("INSERT INTO made.t2 (host) VALUES ('a')")
    served.handle(ddl(truncate_table=v1.TruncateTableExpr(schema_name="made", table_name="t2")))
    assert served.sql("SELECT * FROM made.t2") == []
    served.handle(ddl(drop_table=v1.DropTableExpr(schema_name="made", table_name="t2")))
    served.handle(ddl(drop_table=v1.DropTableExpr(schema_name="made", table_name="t2", drop_if_exists=True)))
    unset = v1.UnsetDatabaseOptions(keys=["ttl"])
    served.handle(ddl(alter_database=v1.AlterDatabaseExpr(schema_name="made", unset_database_options=unset)))


@pytest.mark.parametrize(
    ("request_", "code", "number"),
    [
        (ddl(drop_table=v1.DropTableExpr(table_name="no")), grpc.StatusCode.NOT_FOUND, "4001"),
        (ddl(create_view=v1.CreateViewExpr(view_name="v")), grpc.StatusCode.UNIMPLEMENTED, "1001"),
        (
            ddl(create_view=v1.CreateViewExpr(view_name="v", definition="DROP TABLE t")),
            grpc.StatusCode.INVALID_ARGUMENT,
            "1004",
        ),
        (
            ddl(create_view=v1.CreateViewExpr(view_name="v", definition="SELECT 1; SELECT 2")),
            grpc.StatusCode.INVALID_ARGUMENT,
            "1004",
        ),
        (
            ddl(create_view=v1.CreateViewExpr(view_name="v", definition="SELECT * FROM nowhere")),
            grpc.StatusCode.NOT_FOUND,
            "4001",
        ),
        (ddl(create_flow=v1.CreateFlowExpr(flow_name="f")), grpc.StatusCode.UNIMPLEMENTED, "1001"),
        (ddl(drop_table=v1.DropTableExpr(catalog_name="x", table_name="t")), grpc.StatusCode.INVALID_ARGUMENT, "1004"),
        (ddl(create_database=v1.CreateDatabaseExpr()), grpc.StatusCode.INVALID_ARGUMENT, "1004"),
        (ddl(create_database=v1.CreateDatabaseExpr(schema_name="public")), grpc.StatusCode.INVALID_ARGUMENT, "1004"),
        (ddl(alter_table=v1.AlterTableExpr(table_name="t")), grpc.StatusCode.INVALID_ARGUMENT, "1004"),
        (ddl(create_table=v1.CreateTableExpr(table_name="t")), grpc.StatusCode.INVALID_ARGUMENT, "2000"),
    ],
)
def test_a_definition_that_cannot_be_has_its_own_code(
    served: RunningServer, request_: v1.GreptimeRequest, code: grpc.StatusCode, number: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request_)
    assert (caught.value.code(), trailer(caught.value, "x-greptime-err-code")) == (code, number)


def sql(text: str) -> v1.GreptimeRequest:
    return v1.GreptimeRequest(query=v1.QueryRequest(sql=text))


def test_statements_answer_with_the_rows_they_changed(served: RunningServer) -> None:
    assert served.handle(sql("CREATE TABLE told (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX)")) == 0
    assert served.handle(sql("INSERT INTO told VALUES ('a', 1), ('b', 2); INSERT INTO told VALUES ('c', 3)")) == 3
    assert served.handle(sql("DELETE FROM told WHERE k = 'a'")) == 1


@pytest.mark.parametrize(
    ("request_", "code", "number"),
    [
        (sql("SELECT 1"), grpc.StatusCode.UNIMPLEMENTED, "1001"),
        (sql("SHOW TABLES"), grpc.StatusCode.UNIMPLEMENTED, "1001"),
        (
            v1.GreptimeRequest(query=v1.QueryRequest(prom_range_query=v1.PromRangeQuery(query="up"))),
            grpc.StatusCode.UNIMPLEMENTED,
            "1001",
        ),
        (v1.GreptimeRequest(query=v1.QueryRequest(logical_plan=b"x")), grpc.StatusCode.UNIMPLEMENTED, "1001"),
        (sql("CREATE TABLE x ("), grpc.StatusCode.INVALID_ARGUMENT, "2000"),
        (sql("INSERT INTO nothing_there VALUES (1)"), grpc.StatusCode.NOT_FOUND, "4001"),
    ],
)
def test_statements_with_rows_or_faults_have_their_own_code(
    served: RunningServer, request_: v1.GreptimeRequest, code: grpc.StatusCode, number: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(request_)
    assert (caught.value.code(), trailer(caught.value, "x-greptime-err-code")) == (code, number)


def test_a_stream_of_requests_is_answered_with_all_rows_and_ends_at_the_first_error(served: RunningServer) -> None:
    good = [insert(rows("streamed", [HOST, TS], ["a", n])).SerializeToString() for n in range(3)]
    bad = insert(rows("streamed", [HOST], ["a"])).SerializeToString()
    with served.channel() as channel:
        send = channel.stream_unary("/greptime.v1.GreptimeDatabase/HandleRequests")
        assert v1.GreptimeResponse.FromString(send(iter(good), timeout=20)).affected_rows.value == 3
        with pytest.raises(grpc.RpcError) as caught:
            send(iter([good[0], bad, good[1]]), timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert v1.GreptimeResponse.FromString(send(iter(()), timeout=20)).affected_rows.value == 0


def test_a_packed_message_is_taken(served: RunningServer) -> None:
    request = insert(rows("packed", [HOST, TS], *[["a" * 100, n] for n in range(1000)])).SerializeToString()
    method = "greptime.v1.GreptimeDatabase/Handle"
    raw = served.call(method, request, compression=grpc.Compression.Gzip)
    assert v1.GreptimeResponse.FromString(raw).affected_rows.value == 1000


def test_a_long_message_of_an_error_fits_into_the_trailers(served: RunningServer) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.handle(sql("INSERT INTO " + "ü" * 20_000 + " VALUES (1)"))
    assert trailer(caught.value, "x-greptime-err-code") is not None
    assert len(caught.value.details().encode()) <= 2048
