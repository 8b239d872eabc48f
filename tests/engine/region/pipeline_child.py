"""The process that is killed: threads that write to one region, and note each write when it is acknowledged."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from tests.engine import lives
from tests.engine.harness import batch_of
from tests.engine.lives import PLAIN

THREADS = 6


def run(root: Path, life: int) -> None:
    engine = lives.open_life(root)
    lives.create(PLAIN).run(engine)
    acknowledged = os.open(root / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(host: str) -> None:
        for at in range(1_000_000):
            rows = [{"host": host, "ts": at, "b": at}]
            assert engine.write(PLAIN, batch_of(engine.schema(PLAIN), rows)).result(60) == 1
            os.write(acknowledged, f"{host} {at}\n".encode())

    threads = [threading.Thread(target=write, args=(f"{life}-{number}",)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
