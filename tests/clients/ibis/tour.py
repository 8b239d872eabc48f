"""What a program does with ibis: list and describe tables, filter, group, join, truncate times, make and fill a table.

Arguments: `postgres` or `mysql`, the port. Prints one line of JSON per finding.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import Any

import ibis
from ibis import _


def say(what: str, answer: Any) -> None:
    print(json.dumps([what, answer], default=str))


def records(expression: Any) -> list[list[Any]]:
    """Return the rows that pandas reads, with None for what is missing."""
    frame = expression.to_pandas().astype(object)
    return frame.where(frame.notna(), None).to_numpy().tolist()


def look(connection: Any) -> None:
    say("databases", "public" in connection.list_databases())
    say("tables", sorted(set(connection.list_tables()) & {"ibis_cpu", "ibis_hosts"}))
    say("like", connection.list_tables(like="ibis_c.*"))
    say("elsewhere", "tables" in connection.list_tables(database="information_schema"))
    say("schema", {name: str(kind) for name, kind in connection.table("ibis_cpu").schema().items()})


def ask(connection: Any) -> None:
    cpu, hosts = connection.table("ibis_cpu"), connection.table("ibis_hosts")
    say("rows", records(cpu.order_by("n").select("host", "usage", "n", "day")))
    say("times", [each.isoformat() for each in cpu.order_by("n").to_pandas().ts])
    say("arrow", cpu.to_pyarrow().num_rows)
    say("polars", cpu.order_by("n").to_polars()["n"].to_list())
    say("batches", sum(len(batch) for batch in cpu.to_pyarrow_batches(chunk_size=2)))
    say(
        "filter",
        records(cpu.filter(_.ts > dt.datetime(2024, 1, 2), _.usage.isnull() | (_.n < 3)).select("n").order_by("n")),
    )
    say("in", records(cpu.filter(_.host.isin(hosts.filter(_.rack == "r1").host)).select("n").order_by("n")))
    groups = cpu.group_by("host").aggregate(mean=_.usage.mean(), rows=_.count(), most=_.n.max(), total=_.n.sum())
    say("groups", records(groups.order_by("host")))
    hours = cpu.group_by(hour=_.ts.truncate("h")).aggregate(rows=_.count()).order_by("hour")
    say("hours", [[each.hour.isoformat(), each.rows] for each in hours.to_pandas().itertuples()])
    say("dates", records(cpu.order_by("n").select(day=_.ts.date().cast("string"), ms=_.ts.millisecond())))
    say("join", records(cpu.join(hosts, "host").order_by("n").select("host", "rack", "n")))
    missing = cpu.anti_join(hosts.filter(_.rack == "r1"), "host").count()
    say("anti", int(missing.to_pandas()))
    window = cpu.mutate(row=ibis.row_number().over(group_by="host", order_by="ts"), last=_.n.lag().over(order_by="ts"))
    say("window", records(window.order_by("n").select("row", "last")))
    say("strings", records(cpu.order_by("n").select(up=_.host.upper(), strip=_.host.strip(), starts=_.host.like("a%"))))
    say("sql", records(connection.sql("SELECT host, count(*) AS c FROM ibis_cpu GROUP BY host ORDER BY host")))


def write(connection: Any) -> None:
    kinds = ibis.schema({"host": "string", "v": "float64", "ts": "timestamp"})
    made = connection.create_table("ibis_made", schema=kinds, overwrite=True)
    cpu = connection.table("ibis_cpu")
    connection.insert("ibis_made", cpu.select("host", v=_.usage.fill_null(0.0), ts=_.ts))
    say("made", records(made.order_by("ts").select("host", "v")))
    view = connection.create_view("ibis_view", made.filter(_.v > 0), overwrite=True)
    say("view", int(view.count().to_pandas()))
    connection.drop_view("ibis_view")
    connection.drop_table("ibis_made")
    say("gone", "ibis_made" in connection.list_tables())
    connection.create_database("ibis_database", force=True)
    say("database", "ibis_database" in connection.list_databases())
    connection.drop_database("ibis_database")


def be_refused(connection: Any) -> None:
    for what, call in (
        ("no table", lambda: connection.table("nowhere_at_all")),
        ("no column", lambda: connection.raw_sql("SELECT nothing FROM ibis_cpu")),
    ):
        try:
            call()
        except Exception as error:  # noqa: BLE001 - which class it is depends on the driver underneath
            say(what, [type(error).__name__, "nothing" in str(error) or "nowhere" in str(error)])


def only_postgres(connection: Any) -> None:
    cpu = connection.table("ibis_cpu")
    buckets = cpu.order_by("n").select(bucket=_.ts.bucket(minutes=5)).to_pandas().bucket
    say("buckets", [each.isoformat() for each in buckets])
    say(
        "median",
        records(cpu.aggregate(median=_.usage.median(), any=_.up.any(), uuid=ibis.uuid().cast("string").length())),
    )


def main() -> None:
    backend, port = getattr(ibis, sys.argv[1]), int(sys.argv[2])
    connection = backend.connect(host="127.0.0.1", port=port, user="me", password="any", database="public")
    say("version", bool(connection.version))
    look(connection)
    ask(connection)
    write(connection)
    if sys.argv[1] == "postgres":
        only_postgres(connection)
    be_refused(connection)
    connection.disconnect()


main()
