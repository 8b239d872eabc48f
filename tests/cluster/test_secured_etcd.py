"""Metadata servers and `tsdb restore` with an etcd that asks for certificates and passwords."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.backup.world import CPU, back_up, opened
from tests.components.test_metasrv import metasrv
from tests.kv.etcd_secured import PASSWORD, USER, SecuredEtcd, running_secured_etcd
from tests.meta.clusters import wait_until
from tests.storage import shared_s3
from tests.store.services import BUCKET
from tsdb.cli._commands import _tree
from tsdb.components.metasrv import MetasrvParts
from tsdb.config import Component, MetasrvConfig, load_config
from tsdb.errors import StartError

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    with running_secured_etcd(tmp_path_factory.mktemp("secured")) as secured:
        yield secured


def settings(etcd: SecuredEtcd) -> dict[str, str]:
    """By key, what reaches it."""
    return {
        "store_addr": f"127.0.0.1:{etcd.member.client_port}",
        "store_username": USER,
        "store_password": PASSWORD,
        "store_tls.ca_cert_path": etcd.pem("ca"),
        "store_tls.cert_path": etcd.pem("client"),
        "store_tls.key_path": etcd.pem("client_key"),
    }


def test_a_server_reaches_an_etcd_with_tls_and_a_login(tmp_path: Path, etcd: SecuredEtcd) -> None:
    file = tmp_path / "metasrv.toml"
    file.write_text("".join(f'{key} = "{value}"\n' for key, value in settings(etcd).items()))
    with metasrv(tmp_path / "home", "-c", str(file)) as (server, address):
        wait_until(lambda: server.get("/admin/leader").text == f"{address}\n")
        assert any("election" in key for key in etcd.stored())
        shown = server.get("/config").text
        assert f'store_username = "{USER}"  # file {file}' in shown
        assert f'store_password = "******"  # file {file}' in shown
        assert f'ca_cert_path = "{etcd.pem("ca")}"' in shown
        assert PASSWORD not in shown + server.output
        refused = _restore(tmp_path, etcd)
        assert refused.startswith("ERROR: "), refused
        assert "a metadata server leads this cluster" in refused, "the command has read who leads"
        assert server.stop() == 0
    assert "Traceback" not in server.output


def _restore(directory: Path, etcd: SecuredEtcd, **changes: str) -> str:
    """Run `tsdb restore` with a small backup; return what it prints."""
    place = directory / "backups"
    if not place.exists():
        with opened(directory / "server") as db:
            db.sql(CPU)
            db.sql("INSERT INTO cpu VALUES ('a', 1, 1)")
            back_up(db, place)
    s3 = shared_s3()
    file = directory / "datanode.toml"
    file.write_text(
        f'[storage]\ntype = "S3"\nbucket = "{BUCKET}"\nroot = "{s3.new_root()}"\nendpoint = "{s3.endpoint}"\n'
        'region = "us-east-1"\naccess_key_id = "key"\nsecret_access_key = "top-secret-key"\n'
        f'data_home = "{directory / "unused"}"\ncache_capacity = "0"\n'
    )
    options = {
        "from": str(place),
        "config-file": str(file),
        "store-addrs": f"https://127.0.0.1:{etcd.member.client_port}",
        "datanodes": "1",
        "store-user": USER,
        "store-password": PASSWORD,
        "store-ca-file": etcd.pem("ca"),
        "store-cert-file": etcd.pem("client"),
        "store-key-file": etcd.pem("client_key"),
        **changes,
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return CliRunner().invoke(_tree(), ["restore", *arguments], catch_exceptions=False).output


def test_a_backup_is_restored_through_tls_and_a_login(tmp_path: Path, etcd: SecuredEtcd) -> None:
    try:
        assert "etcd refuses access" in _restore(tmp_path, etcd, **{"store-password": "wrong"})
        assert etcd.pem("client_key") in _restore(tmp_path, etcd, **{"store-ca-file": etcd.pem("client_key")})
        done = _restore(tmp_path, etcd)
        assert "ERROR" not in done, done
        assert any("cpu" in key for key in etcd.stored()), etcd.stored()
    finally:
        etcd.member.ctl("del", "--prefix", "tsdb/")


def _refusal(etcd: SecuredEtcd, **changes: str) -> str:
    """Open the store with other settings, and return why that fails, with the hint."""
    given = {**settings(etcd), **{key.replace("__", "."): value for key, value in changes.items()}}
    variables = {f"TSDB_METASRV__{key.replace('.', '__').upper()}": value for key, value in given.items()}
    config = load_config(Component.METASRV, environment=variables).config
    assert isinstance(config, MetasrvConfig)
    parts = MetasrvParts(config)
    with pytest.raises(StartError) as raised:
        parts.open()
    parts.close()
    return f"{raised.value} {raised.value.hint}"


def test_a_login_that_etcd_refuses_names_the_keys(etcd: SecuredEtcd) -> None:
    found = _refusal(etcd, store_password="wrong-password")
    assert "invalid user ID or password" in found
    assert "check store_username and store_password" in found
    assert "wrong-password" not in found


def test_files_that_cannot_be_used_are_named(etcd: SecuredEtcd, tmp_path: Path) -> None:
    missing, text = str(tmp_path / "missing.pem"), tmp_path / "text.pem"
    text.write_text("hello")
    for key in ("ca_cert_path", "cert_path", "key_path"):
        found = _refusal(etcd, **{f"store_tls__{key}": missing})
        assert "cannot be read: No such file or directory" in found, key
        assert missing in found, key
    assert "no CA certificate in PEM" in _refusal(etcd, store_tls__ca_cert_path=str(text))
    assert "client certificate and its key cannot be used" in _refusal(etcd, store_tls__cert_path=str(text))
    other = _refusal(etcd, store_tls__key_path=str(etcd.directory / "server_key.pem"))
    assert "key values mismatch" in other
