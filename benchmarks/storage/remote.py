"""The queries of TSBS with data files in S3 (moto) and in the file cache, beside local files.

One client asks both servers in turn, so that what else the machine does is the same for both. The median of each
query of the two is compared after a round that nobody measures. `ROUNDS` of `python -m benchmarks storage.remote`
can be raised by the variable TSDB_BENCH_ROUNDS.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks import Measurement
from benchmarks.storage._devops import QUESTIONS, Asked, make_rows
from tests.server_process import running
from tests.store.services import running_s3

ROUNDS = int(os.environ.get("TSDB_BENCH_ROUNDS", "3"))
"""How often each of the 20 questions of a query is asked."""


def main() -> Iterator[Measurement]:
    data = make_rows()
    with tempfile.TemporaryDirectory() as directory, running_s3() as s3:
        places = {"local": Path(directory) / "local", "S3": Path(directory) / "s3"}
        for place in places.values():
            place.mkdir()
        in_s3 = s3.environment("root", places["S3"] / "wal")
        with (
            running("standalone", places["local"]) as local,
            running("standalone", places["S3"], environment=in_s3) as remote,
        ):
            servers = [Asked(local), Asked(remote)]
            for server in servers:
                server.load(data)
            yield from compare(*servers)


def compare(local: Asked, remote: Asked) -> Iterator[Measurement]:
    ratios = []
    for name, questions in QUESTIONS.items():
        taken: tuple[list[float], list[float]] = ([], [])
        for number in range(ROUNDS + 1):
            for question in questions:
                for server, seconds in zip((local, remote), taken, strict=True):
                    found = server.seconds(question)
                    if number:
                        seconds.append(found)
        here, there = map(median, taken)
        ratios.append(there / here)
        yield Measurement(f"{name}, local", here, 1, "queries")
        yield Measurement(f"{name}, S3 with file cache: {there / here:.2f} of local", there, 1, "queries")
    mean = geometric_mean(ratios)
    yield Measurement(f"geometric mean of S3: {mean:.2f} of local, most: {max(ratios):.2f}", 0.0, 0, "queries")
