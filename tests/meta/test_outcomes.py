"""What became of changes is known to every leader: of those that others began, of those that cannot be finished."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalog.worlds import draft, with_column
from tests.meta.clusters import PATIENT, MetaCluster, datanode, running_cluster, wait_until
from tsdb.catalog import (
    CatalogChange,
    ChangeRecord,
    ProcedureState,
    RemoteCatalog,
    forget_old_changes,
    load_changes,
    put_places,
)
from tsdb.catalog._intents import AlterIntent, CreateIntent
from tsdb.catalog.progress import _attempts
from tsdb.errors import InvalidArguments
from tsdb.kv import DeleteKey, MemoryKv, MirrorKv, PutKey
from tsdb.meta import LEADER
from tsdb.meta._move_records import MoveRecord, MoveState, RegionMove
from tsdb.meta.client import MetaClient
from tsdb.meta.errors import ChangePending, NotLeader
from tsdb.model import DatabaseInfo, RegionId, RegionPlace, TableInfo
from tsdb.store import on_crash_point
from tsdb.telemetry import REGISTRY
from tsdb.units import Duration

HASTY = replace(PATIENT, ddl_timeout=Duration.of_seconds(0.05))


def frontend(client: MetaClient) -> tuple[MirrorKv, RemoteCatalog]:
    mirror = MirrorKv(client.watch(), client.transact)
    mirror.start(30)
    return mirror, RemoteCatalog(mirror, client.change)


def depose(cluster: MetaCluster) -> None:
    """End the leadership, and wait until the next one has recovered, of whichever server."""
    before = cluster.leader().leading()

    def leads_anew() -> bool:
        with suppress(NotLeader):
            found = cluster.leader().leading()
            return found is not before and found.is_recovered
        return False

    cluster.store.transact([], [DeleteKey(LEADER)])
    wait_until(leads_anew)


def pending(client: MetaClient, change: CatalogChange) -> str:
    with pytest.raises(ChangePending) as caught:
        client.change(change)
    return str(caught.value.fields["procedure"])


def create_database(name: str) -> CatalogChange:
    return CatalogChange.from_json({"kind": "create_database", "info": DatabaseInfo(name).to_json()})


def create_table(name: str) -> CatalogChange:
    return CatalogChange.from_json({"kind": "create_table", "draft": draft(name).to_json()})


def test_an_id_that_a_client_was_told_to_ask_for_is_known_to_the_next_leader(tmp_path: Path) -> None:
    with running_cluster(tmp_path, servers=2) as cluster:
        client = cluster.client(HASTY)
        client.register(datanode(1))
        began, go_on = threading.Event(), threading.Event()

        def stand_still(point: str) -> None:
            if point == "catalog.create.after_intent":
                began.set()
                go_on.wait(30)

        with on_crash_point(stand_still):
            half_way = pending(client, create_table("t"))
            assert began.wait(30)
            not_begun = pending(client, create_database("d"))
            assert client.procedure(half_way)["state"] == "Running"
            assert client.procedure(not_begun)["state"] == "Waiting"
            deposing = threading.Thread(target=depose, args=(cluster,))
            deposing.start()
            wait_until(lambda: not cluster.store.scan("__procedure/"))
            deposing.join(30)
            go_on.set()
        wait_until(lambda: client.procedure(half_way)["state"] == "Undone")
        told = client.procedure(not_begun)
        assert (told["state"], told["kind"], told["subject"]) == ("Failed", "create_database", "d")
        assert "it was not made" in told["error"]
        assert cluster.store.get("__schema_name/tsdb/d") is None
        assert {each["id"] for each in client.procedures()} >= {half_way, not_begun}
        made = client.change(create_database("d"))
        assert made.error is None
        assert client.procedures()[0]["state"] == "Done"
        with pytest.raises(InvalidArguments, match="no procedure"):
            client.procedure("other")


def stuck(table: TableInfo, procedure: str | None) -> AlterIntent:
    """A change of a table that is not as the change expects it, and never will be."""
    old = replace(table, version=table.version + 7)
    return AlterIntent(old, old.changed(options={}), (), procedure)


def test_what_can_never_be_finished_is_shown_and_holds_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_attempts, "ATTEMPTS_MAX", 3)
    monkeypatch.setattr(_attempts, "PAUSE_SECONDS_MAX", 0.01)
    with running_cluster(tmp_path, servers=2) as cluster:
        client = cluster.client()
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        table, other, lost = (catalog.create_table(draft(name)) for name in ("t", "u", "v"))
        _, new, changes = with_column(other, "extra")
        record = ChangeRecord("7a", "alter_table", "public.t", asked_ms=5, began_ms=6)
        waiting = ChangeRecord("7b", "alter_table", "public.u", asked_ms=5, began_ms=6)
        planned = replace(new, version=other.version + 1, schema_version=other.schema_version + 1)
        cluster.store.transact(
            [],
            [
                stuck(table, record.id).put,
                record.put,
                PutKey("__procedure/alter_table/9", b"nonsense"),
                AlterIntent(other, planned, tuple(changes), waiting.id).put,
                waiting.put,
            ],
        )
        # Behind those that fail: the other change is finished, and new ones are made.
        wait_until(lambda: client.procedure("7b")["state"] == "Done")
        assert [column.name for column in cluster.leader().leading()._wait_recovered().table("public", "u").columns][
            -1
        ] == "extra"
        catalog.create_database(DatabaseInfo("d"))
        wait_until(lambda: client.procedure("7a")["state"] == "Poisoned")
        told = client.procedure("7a")
        assert told["attempts"] >= 3
        assert told["since_ms"] > 0
        assert (told["began_ms"], told["ended_ms"], told["subject"]) == (6, 0, "public.t")
        assert told["error"]
        unreadable = client.procedure("__procedure/alter_table/9")
        assert unreadable["error"]
        assert (REGISTRY.get_sample_value("tsdb_meta_procedures_unfinished") or 0) == 2
        depose(cluster)
        wait_until(lambda: client.procedure("7a")["state"] == "Poisoned")
        assert client.procedure("7a")["since_ms"] == told["since_ms"], "the next leader knows for how long"
        assert client.command("retry_procedures") == {"left": 2}
        catalog.drop_tables([catalog.table("public", "t"), lost])
        cluster.store.transact([], [DeleteKey("__procedure/alter_table/9")])
        wait_until(lambda: client.procedure("7a")["state"] == "Failed")
        assert client.procedure("7a")["error"] == "a later change has replaced it"
        wait_until(lambda: REGISTRY.get_sample_value("tsdb_meta_procedures_unfinished") == 0)
        mirror.close()


def test_a_bug_in_one_change_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_cluster(tmp_path) as cluster:
        client = cluster.client()
        client.register(datanode(1))
        mirror, catalog = frontend(client)
        table = catalog.create_table(draft("t"))
        drop = type(cluster.engine).drop

        def fail_for(engine: object, region_id: RegionId) -> object:
            if region_id >> 32 == 5000:
                raise ZeroDivisionError("no such luck")
            return drop(engine, region_id)  # type: ignore[arg-type]

        monkeypatch.setattr(type(cluster.engine), "drop", fail_for)
        for number in (5000, 5001):
            intent = CreateIntent(replace(table, id=number, name=f"x{number}"), f"of {number}")
            record = ChangeRecord(f"of {number}", "create_table", f"public.x{number}", asked_ms=1)
            place = put_places(number, {0: RegionPlace(1, 1)})
            cluster.store.transact([], [intent.put, place, record.put])
        wait_until(lambda: client.procedure("of 5001")["state"] == "Undone")
        wait_until(lambda: client.procedure("of 5000")["attempts"] > 0)
        assert "no such luck" in client.procedure("of 5000")["error"]
        catalog.create_database(DatabaseInfo("d"))
        mirror.close()


def test_a_move_of_an_earlier_leader_is_found_by_its_id(tmp_path: Path) -> None:
    moves = (RegionMove(RegionId(4), MoveState.FAILED, error="it refuses"), RegionMove(RegionId(5), MoveState.DONE))
    record = MoveRecord("ab12", 1, "migration", 1000, moves, is_failover=False, state=MoveState.FAILED, ended_ms=2000)
    store = MemoryKv()
    store.transact([], [record.put])
    with running_cluster(tmp_path, store=store) as cluster:
        client = cluster.client()
        told = client.procedure("ab12")
        assert (told["kind"], told["state"], told["error"]) == ("migrate_region", "Failed", "it refuses")
        assert told in client.procedures()
    store.close()


def test_only_the_newest_finished_changes_are_kept() -> None:
    store = MemoryKv()
    for number in range(7):
        state = ProcedureState.RUNNING if number == 1 else ProcedureState.DONE
        store.transact([], [ChangeRecord(str(number), "k", "s", asked_ms=number, state=state).put])
    forget_old_changes(store, kept_max=3)
    assert [each.id for each in load_changes(store)] == ["1", "4", "5", "6"]
    store.transact([], [PutKey("__change/bad", b"nonsense")])
    assert len(load_changes(store)) == 4
    store.close()
