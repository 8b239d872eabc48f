"""Random queries over random samples: a Prometheus server and ours say the same.

TSDB_DIFFERENTIAL_QUERIES says how many queries, TSDB_DIFFERENTIAL_SEED which ones; a failure names both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import httpx
import pyarrow as pa
import pytest

from tests.differential.comparison import PromqlClient, difference, is_excepted
from tests.differential.expressions import Times, expression, times
from tests.differential.prometheus_process import PROGRAM, running_prometheus
from tests.differential.samples import START_S, random_slots
from tests.ingest.prometheus_messages import write_request
from tests.server_process import running

pytestmark = [
    pytest.mark.differential,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        PROGRAM is None and not os.environ.get("TSDB_CLIENTS_REQUIRED"),
        reason="the program prometheus is not installed",
    ),
]
QUERIES = int(os.environ.get("TSDB_DIFFERENTIAL_QUERIES", "5000"))
SEED = int(os.environ.get("TSDB_DIFFERENTIAL_SEED", "1"))
HEADERS = {"content-encoding": "snappy", "content-type": "application/x-protobuf"}
SHOWN_MAX = 20
# `[30m s]` was read as `[30m]` once; nothing but a mistake of the older lexer.
_BLANK_IN_BRACKETS = re.compile(r"\[[^\]]*\s")
AT = Times((START_S + 300) * 1000, (START_S + 300) * 1000, 0)


@dataclass(frozen=True)
class Both:
    """The two servers, with the same samples."""

    theirs: PromqlClient
    ours: PromqlClient


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    theirs_home, ours_home = tmp_path_factory.mktemp("prometheus"), tmp_path_factory.mktemp("tsdb")
    with running_prometheus(theirs_home) as url, running("standalone", ours_home) as server:
        for slot in random_slots(SEED):
            message = write_request([(sorted(each.labels.items()), each.samples) for each in slot if each.samples])
            body = pa.compress(message.SerializeToString(), codec="snappy", asbytes=True)
            for target in (f"{url}/api/v1/write", f"{server.url}/v1/prometheus/write"):
                httpx.post(target, content=body, headers=HEADERS, timeout=30).raise_for_status()
        found = Both(PromqlClient(url), PromqlClient(f"{server.url}/v1/prometheus"))
        yield found
        found.theirs.close()
        found.ours.close()


def test_random_queries_are_answered_as_by_prometheus(both: Both) -> None:
    random = Random(SEED)
    wrong, full = [], 0
    for _ in range(QUERIES):
        query, when = expression(random), times(random)
        theirs, ours = both.theirs.ask(query, when), both.ours.ask(query, when)
        full += bool(theirs.result)
        if (what := difference(theirs, ours)) and not is_excepted(query, theirs, ours):
            wrong.append((query, when, what))
    wrong.sort(key=lambda each: len(each[0]))
    assert not wrong, "\n".join(f"{query}\n  {when}\n  {what}" for query, when, what in wrong[:SHOWN_MAX])
    assert full > QUERIES / 3, "too many queries find nothing"


def test_what_prometheus_reads_is_read(both: Both) -> None:
    """Damaged queries: newer versions of the language take more, never less."""
    random = Random(SEED + 1)
    refused = []
    for _ in range(QUERIES):
        query = _damaged(random, expression(random))
        if _BLANK_IN_BRACKETS.search(query):
            continue
        ours = both.ours.ask(query, AT)
        if "parse error" in ours.error and not both.theirs.ask(query, AT).error:
            refused.append((query, ours.error))
    assert not refused, "\n".join(f"{query}\n  {error}" for query, error in refused[:SHOWN_MAX])


def _damaged(random: Random, text: str) -> str:
    """Take a piece out, double it, or put some character between."""
    for _ in range(random.randint(1, 2)):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.randint(0, 4))
        piece = random.choice(("", text[start:end] * 2, random.choice("(){}[],\"'=~!<>+-@:. 0123456789smhdy#\n")))
        text = text[:start] + piece + text[end:]
    return text or "1"
