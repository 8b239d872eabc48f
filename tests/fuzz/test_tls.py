"""Bytes out of shape where HTTP is inside of TLS: the engine's own, and that of the front (`prefer`, `verify_full`)."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from tests.fuzz import seeds
from tests.fuzz.test_ports import CONVERSATIONS_MIN, SECONDS, SEED, check_costs, costs, mistakes, mutate, say
from tests.server_process import ServerProcess, running

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts threads and descriptors in /proc"),
    pytest.mark.timeout(SECONDS * 2 + 240),
]


@pytest.fixture(params=["prefer", "require", "verify_full"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerProcess, ssl.SSLContext]]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    authority.issue_cert("me@example.org", common_name="me").configure_cert(context)
    section = "TSDB_STANDALONE__HTTP__TLS__"
    environment = {
        f"{section}MODE": request.param,
        f"{section}CERT_PATH": str(tmp_path / "cert.pem"),
        f"{section}KEY_PATH": str(tmp_path / "key.pem"),
        f"{section}CA_CERT_PATH": str(tmp_path / "ca.pem"),
    }
    with running("standalone", tmp_path, environment=environment) as started:
        yield started, context
        assert started.stop() == 0
        assert mistakes(started.output) == []


def test_garbage_before_and_inside_of_tls_leaves_the_server_as_it_was(
    served: tuple[ServerProcess, ssl.SSLContext],
) -> None:
    server, context = served
    _check_answer(server, context)
    port, chance = int(server.url.rsplit(":", 1)[1]), random.Random(f"{SEED} tls")
    print(f"TSDB_FUZZ_SEED={SEED}")
    before, sent = costs(server), 0
    deadline = time.monotonic() + SECONDS
    while sent < CONVERSATIONS_MIN or time.monotonic() < deadline:
        is_inside = chance.random() < 0.5
        known = seeds.http() if is_inside else seeds.tls()
        messages = mutate(chance, chance.choice(known)) if chance.random() < 0.9 else [chance.randbytes(500)]
        say(port, messages, chance, context if is_inside else None)
        sent += 1
        assert server.process.poll() is None, f"the server has ended, seed {SEED}\n{server.output[-4000:]}"
    _check_answer(server, context)
    check_costs(server, before)
    print(f"tls: {sent} conversations, threads/descriptors/MB {before} -> {costs(server)}")


def _check_answer(server: ServerProcess, context: ssl.SSLContext) -> None:
    with httpx.Client(verify=context, timeout=30, trust_env=False) as client:
        for url in {server.url, server.url.replace("http:", "https:")}:
            assert client.post(f"{url}/v1/sql", data={"sql": "SELECT 1"}).status_code == 200
