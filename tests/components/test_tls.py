"""A server that speaks TLS over HTTP, started and asked as users do."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import httpx
import requests
import trustme

from tests.server_process import running


def test_a_standalone_server_speaks_https_and_imports_its_public(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    environment = {
        "TSDB_STANDALONE__HTTP__TLS__MODE": "require",
        "TSDB_STANDALONE__HTTP__TLS__CERT_PATH": str(tmp_path / "cert.pem"),
        "TSDB_STANDALONE__HTTP__TLS__KEY_PATH": str(tmp_path / "key.pem"),
        "TSDB_STANDALONE__USER_PROVIDER": "static_user_provider:cmd:me=secret",
        "TSDB_STANDALONE__EXPORT_METRICS__ENABLE": "true",
        "TSDB_STANDALONE__EXPORT_METRICS__WRITE_INTERVAL": "1s",
        "TSDB_STANDALONE__EXPORT_METRICS__SELF_IMPORT__DB": "public",
    }
    with running("standalone", tmp_path, environment=environment) as server:
        assert server.url.startswith("https://")
        assert f"curl -u user:password {server.url}/v1/sql" in server.output
        asked = {"data": {"sql": "SELECT 1 AS one"}, "auth": ("me", "secret"), "timeout": 10}
        answer = requests.post(f"{server.url}/v1/sql", verify=str(tmp_path / "ca.pem"), **asked)  # type: ignore[arg-type]
        assert answer.json()["output"][0]["records"]["rows"] == [[1]]
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with httpx.Client(base_url=server.url, verify=context, timeout=10, trust_env=False) as client:
            assert client.get("/ready").status_code == 200
            assert client.post("/v1/sql", data={"sql": "SELECT 1"}).status_code == 401
            statement = {"sql": "SELECT count(*) > 0 FROM tsdb_app_version", "db": "public"}
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                found = client.post("/v1/sql", data=statement, auth=("me", "secret")).json()
                if "output" in found and found["output"][0]["records"]["rows"] == [[True]]:
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(f"no metrics were imported: {found}")
        assert server.stop() == 0
    assert "Traceback" not in server.output
