"""Users in the metadata: what is kept, what a restart finds, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tsdb.auth import ANYWHERE, Access, Identity, UserExists, UserNotFound, UserStore, stored_secret
from tsdb.auth import _store as store_module
from tsdb.auth._store import UsersCorrupted
from tsdb.errors import InvalidArguments
from tsdb.kv import KvConflict, MemoryKv, PutKey, SqliteKv

SECRET = stored_secret("p")


def test_a_restart_finds_users_with_their_rights_and_passwords(tmp_path: Path) -> None:
    kv = SqliteKv(tmp_path / "m.sqlite")
    store = UserStore(kv)
    store.create("a/b%", SECRET)
    store.create("root", stored_secret("r"), is_admin=True)
    store.grant("a/b%", "db1", Access.READ)
    store.grant("a/b%", "db1", Access.WRITE)
    store.grant("a/b%", "db2", Access.READ)
    kv.close()
    kv = SqliteKv(tmp_path / "m.sqlite")
    found = UserStore(kv)
    assert [(each.name, each.is_admin) for each in found.users()] == [("a/b%", False), ("root", True)]
    assert found.user("a/b%").grants == {"db1": Access.ALL, "db2": Access.READ}
    assert found.user("a/b%").secret == SECRET
    assert found.decoy_key() == store_module.UserStore(kv).decoy_key()
    kv.close()


def test_no_password_stands_in_the_metadata(tmp_path: Path) -> None:
    kv = MemoryKv()
    UserStore(kv).create("u", stored_secret("hunter2hunter2"))
    assert all(b"hunter2" not in value for _, value in kv.scan(""))


def test_rights_are_given_and_taken_away_by_scope() -> None:
    store = UserStore(MemoryKv())
    store.create("u", SECRET)
    identity = store.user("u").identity
    assert (identity.can_read, identity.can_write, identity.is_admin) == (False, False, False)
    store.grant("u", "a", Access.ALL)
    store.grant("u", ANYWHERE, Access.READ)
    identity = store.user("u").identity
    assert identity.may_read("b")
    assert Access.WRITE not in identity.access("b")
    assert Access.WRITE in identity.access("a")
    store.revoke("u", "a", Access.WRITE)
    assert store.user("u").grants == {"a": Access.READ, ANYWHERE: Access.READ}
    store.revoke("u", ANYWHERE, Access.ALL)
    assert store.user("u").grants == {"a": Access.READ}
    store.grant("u", "b", Access.ALL, makes_admin=True)
    store.revoke("u", None, Access.ALL, takes_admin=True)
    assert store.user("u").grants == {}
    assert not store.user("u").is_admin


def test_a_dropped_database_takes_its_rights_with_it() -> None:
    store = UserStore(MemoryKv())
    for name in ("u", "v"):
        store.create(name, SECRET)
        store.grant(name, "gone", Access.ALL)
        store.grant(name, "kept", Access.READ)
    store.forget_database("gone")
    assert {each.name: dict(each.grants) for each in store.users()} == {
        "u": {"kept": Access.READ},
        "v": {"kept": Access.READ},
    }


def test_what_cannot_be_is_refused() -> None:
    store = UserStore(MemoryKv())
    store.create("u", SECRET)
    with pytest.raises(UserExists):
        store.create("u", SECRET)
    for work in (
        lambda: store.drop("z"),
        lambda: store.grant("z", "a", Access.READ),
        lambda: store.revoke("z", "a", Access.READ),
        lambda: store.user("z"),
    ):
        with pytest.raises(UserNotFound):
            work()
    for name in ("", "x" * 200, "a:b", "a=b", "a\nb"):
        with pytest.raises(InvalidArguments):
            store.create(name, SECRET)


def test_there_are_limits() -> None:
    store = UserStore(MemoryKv(), users_max=2, scopes_max=2)
    store.create("a", SECRET)
    store.create("b", SECRET)
    with pytest.raises(InvalidArguments, match="2 users"):
        store.create("c", SECRET)
    store.grant("a", "x", Access.READ)
    store.grant("a", "y", Access.READ)
    with pytest.raises(InvalidArguments, match="2 databases"):
        store.grant("a", "z", Access.READ)
    assert set(store.user("a").grants) == {"x", "y"}


def test_somebody_elses_change_is_noticed_and_nothing_is_overwritten() -> None:
    kv = MemoryKv()
    one, other = UserStore(kv), UserStore(kv)
    one.create("u", SECRET)
    with pytest.raises(KvConflict):
        other.create("u", SECRET)
    late = UserStore(kv)
    one.grant("u", "a", Access.READ)
    with pytest.raises(KvConflict):
        late.grant("u", "b", Access.READ)
    assert UserStore(kv).user("u").grants == {"a": Access.READ}


def test_a_user_that_cannot_be_read_is_an_error_that_names_the_key() -> None:
    kv = MemoryKv()
    kv.transact([], [PutKey("__user/u", b'{"name":"u"}')])
    with pytest.raises(UsersCorrupted, match="__user/u"):
        UserStore(kv)


def test_a_user_who_has_not_changed_stays_the_same_object_so_that_passwords_stay_recalled() -> None:
    store = UserStore(MemoryKv())
    store.create("u", SECRET)
    before = store.table().find("u")
    store.create("v", SECRET)
    assert store.table().find("u") is before
    store.change("u", lambda user: replace(user, secret=stored_secret("other")))
    assert store.table().find("u") is not before


def test_the_rights_of_an_identity_without_grants_hold_everywhere() -> None:
    reader = Identity("r", can_write=False)
    assert reader.may_read("any")
    assert Access.WRITE not in reader.access("any")
    assert reader.sees_all
    assert not Identity("w", can_read=False).sees_all
