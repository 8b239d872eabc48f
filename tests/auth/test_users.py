"""Where users come from: lists, files, watched files, and what is refused at the start."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tsdb.auth import (
    Authenticator,
    PasswordMismatch,
    PermissionDenied,
    UserStore,
    open_authenticator,
    stored_secret,
)
from tsdb.errors import StartError
from tsdb.kv import MemoryKv


def _access(found: Authenticator, user: str, password: str) -> tuple[bool, bool, bool]:
    identity = found.check_password(user, password)
    assert identity.name == user
    return identity.can_read, identity.can_write, identity.is_admin


@pytest.mark.parametrize("provider", [None, ""])
def test_without_a_provider_everybody_comes_in_under_the_name_they_say(provider: str | None) -> None:
    found = open_authenticator(provider)
    assert not found.is_enabled
    assert found.check_password("whoever", "").name == "whoever"
    assert found.check_mysql_native("m", b"x" * 20, b"").name == "m"
    assert found.confirm_scram("p", succeeded=False).name == "p"
    assert found.recall_password("h", "x") is not None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("", (True, True, True)),
        *((f":{mode}", (True, True, True)) for mode in ("rw", "readwrite", "read_write", "RW")),
        *((f":{mode}", (True, False, False)) for mode in ("ro", "readonly", "read_only")),
        *((f":{mode}", (False, True, False)) for mode in ("wo", "writeonly", "write_only")),
    ],
)
def test_a_mode_says_what_a_user_may_do(mode: str, expected: tuple[bool, bool, bool]) -> None:
    found = open_authenticator(f"static_user_provider:cmd:other=x,u{mode}=p")
    assert found.is_enabled
    assert _access(found, "u", "p") == expected


@pytest.mark.parametrize(
    "provider",
    [
        "nope",
        "nope:cmd:u=hunter2hunter2",
        "static_user_provider",
        "static_user_provider:",
        "static_user_provider:cmd",
        "static_user_provider:cmd:",
        "static_user_provider:env:X",
        "static_user_provider:cmd:hunter2hunter2",
        "static_user_provider:cmd:u=hunter2hunter2=x",
        "static_user_provider:cmd:=hunter2hunter2",
        "static_user_provider:cmd:u=",
        "static_user_provider:cmd:u=hunter2hunter2,",
        "static_user_provider:cmd:u=hunter2hunter2,u=x",
        "static_user_provider:cmd:u:admin=hunter2hunter2",
        "static_user_provider:cmd:u=pbkdf2_sha256:hunter2hunter2",
        "static_user_provider:file:/nope/users",
        "watch_file_user_provider",
        "watch_file_user_provider:",
        "watch_file_user_provider:/nope/users",
        "catalog_user_provider:cmd:hunter2hunter2",
    ],
)
def test_a_provider_that_cannot_be_used_ends_the_start_without_telling_a_secret(provider: str) -> None:
    with pytest.raises(StartError) as caught:
        open_authenticator(provider)
    assert str(caught.value).startswith("user_provider: ")
    assert "hunter2hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_gives_its_good_lines_and_the_log_tells_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    path.write_bytes("\ufeffa=one\r\n\n# b=x\nhunter2hunter2\n  c : ro = three \nu=hunter2=hunter2\na=four\n".encode())
    with caplog.at_level(logging.WARNING, "tsdb.auth"):
        found = open_authenticator(f"static_user_provider:file:{path}")
    assert _access(found, "a", "four") == (True, True, True)
    assert _access(found, "c", "three") == (True, False, False)
    assert found.find("b") is None
    assert len(caplog.records) == 2
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("text", ["", "# nobody\n", "nobody\n=x\n"])
def test_a_file_must_name_somebody(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(StartError, match="contains no users"):
        open_authenticator(f"static_user_provider:file:{path}")


def test_a_static_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("a=one\n")
    found = open_authenticator(f"static_user_provider:file:{path}")
    path.write_text("a=two\n")
    assert _access(found, "a", "one") == (True, True, True)


def test_a_watched_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("a=one\n")
    found = open_authenticator(f"watch_file_user_provider:{path}")
    old = found.check_password("a", "one")
    path.write_text("a:ro=two\nb=x\n")
    assert _access(found, "a", "two") == (True, False, False)
    with pytest.raises(PasswordMismatch):
        found.check_password("a", "one")
    assert found.refresh(old).can_write is False, "who is in already has the rights of now"

    replaced = tmp_path / "new"
    replaced.write_text("b=y\n")
    os.replace(replaced, path)
    assert _access(found, "b", "y") == (True, True, True)
    with pytest.raises(PermissionDenied, match="no longer exists"):
        found.refresh(old)


def test_a_watched_file_that_becomes_useless_keeps_the_users_of_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    path.write_text("a=one\n")
    found = open_authenticator(f"watch_file_user_provider:{path}")
    path.write_text("# nobody\n")
    assert _access(found, "a", "one") == (True, True, True)
    assert "cannot be used" in caplog.text
    path.unlink()
    assert _access(found, "a", "one") == (True, True, True)
    assert "is missing" in caplog.text
    path.write_text("a=two\n")
    assert _access(found, "a", "two") == (True, True, True)


def test_a_change_right_after_the_last_one_is_seen_even_with_the_same_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("a=one\n")
    found = open_authenticator(f"watch_file_user_provider:{path}")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text("a=two\n")
    os.utime(path, ns=times)
    seen: set[int] = set()
    for _ in range(200_000):
        try:
            found.check_password("a", "two", client=str(len(seen)))
        except PasswordMismatch:
            seen.add(len(seen))
            continue
        break
    else:
        pytest.fail("the change was never seen")


def test_stored_users_need_an_administrator_to_begin_with() -> None:
    found = open_authenticator("catalog_user_provider")
    with pytest.raises(StartError, match="administrator"):
        found.attach(UserStore(MemoryKv()))


def test_stored_users_and_given_ones_log_in_side_by_side_and_the_given_win() -> None:
    store = UserStore(MemoryKv())
    store.create("stored", stored_secret("s"))
    store.create("root", stored_secret("not this one"))
    found = open_authenticator("catalog_user_provider:cmd:root=r")
    found.attach(store)
    assert found.has_stored_users
    assert _access(found, "root", "r") == (True, True, True)
    assert _access(found, "stored", "s") == (False, False, False)
    with pytest.raises(PasswordMismatch):
        found.check_password("root", "not this one")
    store.create("later", stored_secret("l"), is_admin=True)
    assert _access(found, "later", "l") == (False, False, True)
    store.drop("later")
    with pytest.raises(PasswordMismatch):
        found.check_password("later", "l")
