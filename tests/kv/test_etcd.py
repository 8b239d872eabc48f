"""etcd's own matters: addresses, users, TLS, sizes, what is stored where."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import trustme

from tests.kv.etcd_process import QUICK, EtcdProcess, connect, new_prefix, only_slow, running_etcd
from tsdb.errors import InvalidArguments
from tsdb.kv import (
    Equals,
    KvDenied,
    KvTooLarge,
    KvUnavailable,
    LeaseLost,
    PutKey,
    PutLeased,
    WatchChanges,
    WatchReset,
)
from tsdb.kv.etcd import Endpoint, EtcdKv, EtcdSettings, EtcdTls, parse_endpoints
from tsdb.kv.etcd._failures import FailureKind, classify

PATIENCE = 60.0
SHORT = replace(QUICK, timeout_seconds=2.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:2379", ["http://127.0.0.1:2379"]),
        ("a:1,b:2", ["http://a:1", "http://b:2"]),
        ("a:1 b:2 , http://c", ["http://a:1", "http://b:2", "http://c:2379"]),
        ("https://etcd.example.com:2379/,a:1", ["https://etcd.example.com:2379", "http://a:1"]),
        ("[::1]:2379 [fe80::1]", ["http://[::1]:2379", "http://[fe80::1]:2379"]),
        ("a:1,a:1", ["http://a:1"]),
        ("", []),
    ],
)
def test_addresses_are_read(text: str, expected: list[str]) -> None:
    assert [str(each) for each in parse_endpoints(text)] == expected


def test_an_address_without_a_scheme_is_secure_if_the_others_are_told_to_be() -> None:
    assert parse_endpoints("a:1,http://b:2", is_secure=True) == (Endpoint("a", 1, True), Endpoint("b", 2, False))


@pytest.mark.parametrize("text", ["ftp://a:1", "a:b", "a:0", "a:65536", "a:1:2", "::1", "user@a:1", "http://"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(InvalidArguments, match="is not an address of etcd"):
        parse_endpoints(text)


def test_settings_that_cannot_work_are_refused() -> None:
    endpoints = parse_endpoints("a:1")
    with pytest.raises(InvalidArguments, match="no address"):
        EtcdSettings(())
    with pytest.raises(InvalidArguments, match="prefix"):
        EtcdSettings(endpoints, "")
    with pytest.raises(InvalidArguments, match="both"):
        EtcdSettings(endpoints, tls=EtcdTls(cert_path=Path("cert.pem")))
    assert "secret" not in repr(EtcdSettings(endpoints, username="u", password="secret"))


def test_what_a_configuration_says_is_one_whole() -> None:
    assert EtcdSettings.of("a:1,https://b:2").endpoints == (Endpoint("a", 1, False), Endpoint("b", 2, True))
    assert EtcdSettings.of("a:1", username="u", password="p").username == "u"
    for given in ({"username": "u"}, {"password": "p"}):
        with pytest.raises(InvalidArguments, match="needs a user name and a password"):
            EtcdSettings.of("a:1", **given)
    with pytest.raises(InvalidArguments, match="http://b:2 is without TLS"):
        EtcdSettings.of("a:1,http://b:2", ca_path="ca.pem")


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", FailureKind.TRANSIENT),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: …", FailureKind.UNSENT),
        (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", FailureKind.TOKEN),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: too many operations in txn request", FailureKind.REFUSED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", FailureKind.TRANSIENT),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", FailureKind.FULL),
        (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", FailureKind.COMPACTED),
    ],
)
def test_failures_are_told_apart(code: grpc.StatusCode, details: str, kind: FailureKind) -> None:
    assert classify(code, details) is kind


def test_keys_are_below_the_prefix_and_readable_by_other_clients(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix)
    assert store.transact([], [PutKey("__table_name/a", b"1"), PutKey("", b"empty key")])
    assert etcd.ctl("get", f"{prefix}__table_name/a", "--print-value-only") == "1\n"
    etcd.ctl("put", f"{prefix}theirs", "2")
    assert store.scan("") == [("", b"empty key"), ("__table_name/a", b"1"), ("theirs", b"2")]
    other = connect(etcd.url, prefix=prefix[:-1] + "0")
    assert other.scan("") == []
    assert other.transact([], [PutKey("x", b"")])
    assert len(store.scan("")) == 3
    store.close()
    other.close()
    # What the store kept for itself is gone with it.
    assert etcd.ctl("get", "--prefix", prefix, "--keys-only").split() == [
        prefix,
        f"{prefix}__table_name/a",
        f"{prefix}theirs",
    ]


def test_keys_of_other_programs_that_are_not_text_are_ignored(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix)
    watch = store.watch("")
    assert watch.wait(PATIENCE) == store.snapshot("")
    etcd.ctl("put", os.fsdecode(prefix.encode() + b"a\xfe"), "theirs")
    assert store.transact([], [PutKey("b", b"ours")])
    found = watch.wait(PATIENCE)
    assert isinstance(found, WatchChanges)
    assert [event.key for event in found.events] == ["b"]
    assert store.scan("") == [("b", b"ours")]
    store.close()


def test_a_watch_that_cannot_work_says_why(tmp_path: Path) -> None:
    store = connect("https://127.0.0.1:1", tls=EtcdTls(tmp_path / "missing.pem"))
    watch = store.watch("")
    with pytest.raises(InvalidArguments, match=r"missing\.pem"):
        watch.wait(PATIENCE)
    store.close()


def test_a_scan_reads_one_moment_in_many_pages(etcd: EtcdProcess) -> None:
    store = connect(etcd.url)
    for start in range(0, 500, 100):
        assert store.transact([], [PutKey(f"{number:04}", b"x") for number in range(start, start + 100)])
    assert [key for key, _ in store.scan("")] == [f"{number:04}" for number in range(500)]
    assert [key for key, _ in store.scan("01")] == [f"{number:04}" for number in range(100, 200)]
    store.close()


def test_pages_become_smaller_when_values_are_large(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix, tuning=replace(QUICK, page_keys=100, reply_bytes_max=100_000))
    values = {f"{number:02}": bytes([number]) * 30_000 for number in range(12)}
    for key, value in values.items():
        assert store.transact([], [PutKey(key, value)])
    assert dict(store.scan("")) == values
    other = connect(etcd.url, prefix=prefix, tuning=replace(QUICK, reply_bytes_max=1000))
    with pytest.raises(KvUnavailable, match="larger than max"):
        other.scan("")
    store.close()
    other.close()


@pytest.mark.parametrize("size", [1_600_000, 5_000_000])
def test_a_value_that_etcd_does_not_take_is_refused(etcd: EtcdProcess, size: int) -> None:
    store = connect(etcd.url)
    with pytest.raises(KvTooLarge, match="too large for etcd"):
        store.transact([], [PutKey("a", bytes(size))])
    assert store.get("a") is None
    assert store.transact([], [PutKey("a", bytes(1_000_000))])
    store.close()


def test_transactions_that_are_refused_leave_nothing_behind(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix)
    ended = store.grant_lease(60)
    ended.revoke()
    assert store.transact([], [PutKey("a", b"1")])
    witness_lease = store._witness_lease
    for _ in range(5):
        with pytest.raises(LeaseLost):
            store.transact([], [PutLeased("b", b"1", ended.id)])
        with pytest.raises(KvTooLarge):
            store.transact([], [PutKey("b", bytes(1_600_000))])
    assert store.transact([], [PutKey("a", b"2")])
    assert store._witness_lease is witness_lease
    assert etcd.ctl("get", "--prefix", prefix, "--keys-only").count("witness/") == 1
    store.close()
    assert etcd.ctl("get", "--prefix", prefix, "--keys-only").split() == [f"{prefix}a"]


def test_a_store_whose_witnesses_have_expired_goes_on(etcd: EtcdProcess) -> None:
    store = connect(etcd.url)
    assert store.transact([], [PutKey("a", b"1")])
    lease = store._witness_lease
    assert lease is not None
    store.revoke_lease(lease.id)
    assert store.transact([Equals("a", b"1")], [PutKey("a", b"2")])
    assert not store.transact([Equals("a", b"1")], [PutKey("a", b"3")])
    assert store._witness_lease is not lease
    assert not lease.is_alive()
    store.close()


def fill(store: EtcdKv) -> None:
    for _ in range(20):
        assert store.transact([], [PutKey("a", bytes(1 << 20))])


def test_an_etcd_without_space_says_what_to_do(tmp_path: Path) -> None:
    with running_etcd(tmp_path, options=["--quota-backend-bytes", str(4 << 20)]) as member:
        store = connect(member.url)
        with pytest.raises(KvUnavailable, match=r"no space left.*disarm"):
            fill(store)
        assert store.get("a") == bytes(1 << 20)
        store.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd with the user `meta`, who may use the keys below `mine/`."""
    with running_etcd(tmp_path, options=["--bcrypt-cost", "4"]) as member:
        member.ctl("user", "add", "root:top")
        member.ctl("user", "grant-role", "root", "root")
        member.ctl("role", "add", "meta")
        member.ctl("role", "grant-permission", "meta", "--prefix=true", "readwrite", "mine/")
        member.ctl("user", "add", "meta:secret")
        member.ctl("user", "grant-role", "meta", "meta")
        yield member


def test_users_are_known_by_their_password_and_tokens_are_renewed(guarded: EtcdProcess) -> None:
    store = connect(guarded.url, prefix="mine/", username="meta", password="secret", tuning=SHORT)
    # The user may be set before authentication is switched on.
    assert store.transact([], [PutKey("a", b"0")])
    guarded.ctl("auth", "enable")
    assert store.transact([], [PutKey("a", b"1")])
    watch = store.watch("a")
    assert isinstance(watch.wait(PATIENCE), WatchReset)
    lease = store.grant_lease(60)

    # A restart forgets all tokens, as time would.
    guarded.kill()
    guarded.start()
    guarded.wait_ready()
    assert store.transact([], [PutKey("a", b"2")])
    found = watch.wait(PATIENCE)
    assert isinstance(found, WatchChanges)
    assert [event.key for event in found.events] == ["a"]
    assert lease.renew_once()
    store.close()

    wrong = connect(guarded.url, prefix="mine/", username="meta", password="wrong", tuning=SHORT)
    with pytest.raises(KvDenied, match="invalid user ID or password"):
        wrong.get("a")
    with pytest.raises(KvDenied):
        wrong.transact([], [PutKey("a", b"3")])
    refused = wrong.watch("a")
    with pytest.raises(KvDenied):
        refused.wait(PATIENCE)
    wrong.close()

    nobody = connect(guarded.url, prefix="mine/", tuning=SHORT)
    with pytest.raises(KvDenied, match="user name is empty"):
        nobody.get("a")
    nobody.close()

    elsewhere = connect(guarded.url, prefix="theirs/", username="meta", password="secret", tuning=SHORT)
    with pytest.raises(KvDenied, match="permission denied"):
        elsewhere.get("a")
    with pytest.raises(KvDenied, match="permission denied"):
        elsewhere.watch("a", after_revision=1).wait(PATIENCE)
    elsewhere.close()


@only_slow
def test_a_token_that_has_expired_is_replaced(tmp_path: Path) -> None:
    with running_etcd(tmp_path, options=["--bcrypt-cost", "4", "--auth-token-ttl", "1"]) as member:
        member.ctl("user", "add", "root:top")
        member.ctl("user", "grant-role", "root", "root")
        member.ctl("auth", "enable")
        store = connect(member.url, username="root", password="top")
        assert store.transact([], [PutKey("a", b"1")])
        first = store._client._token
        deadline = time.monotonic() + PATIENCE
        while store._client._token == first:
            assert time.monotonic() < deadline
            time.sleep(1.5)
            assert store.get("a") == b"1"
        store.close()


def test_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("meta@example.com")
    for name, blob in {
        "ca": authority.cert_pem,
        "stranger": stranger.cert_pem,
        "server": server.cert_chain_pems[0],
        "server_key": server.private_key_pem,
        "client": client.cert_chain_pems[0],
        "client_key": client.private_key_pem,
    }.items():
        blob.write_to_path(str(tmp_path / f"{name}.pem"))

    def pem(name: str) -> Path:
        return tmp_path / f"{name}.pem"

    options = ["--cert-file", str(pem("server")), "--key-file", str(pem("server_key"))]
    options += ["--trusted-ca-file", str(pem("ca")), "--client-cert-auth"]
    with running_etcd(tmp_path, scheme="https", options=options) as member:
        store = connect(member.url, tls=EtcdTls(pem("ca"), pem("client"), pem("client_key")))
        assert store.transact([], [PutKey("a", b"1")])
        assert store.get("a") == b"1"
        store.close()
        for tls in (
            EtcdTls(pem("ca")),  # no certificate
            EtcdTls(pem("stranger"), pem("client"), pem("client_key")),  # an etcd that is not trusted
        ):
            refused = connect(member.url, tls=tls, tuning=replace(QUICK, timeout_seconds=0.5))
            with pytest.raises(KvUnavailable, match=str(member.client_port)):
                refused.get("a")
            refused.close()
        missing = connect(member.url, tls=EtcdTls(tmp_path / "missing.pem"))
        with pytest.raises(InvalidArguments, match=r"missing\.pem"):
            missing.get("a")
        missing.close()
