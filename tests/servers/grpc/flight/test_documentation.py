"""What docs/flight.md shows, run as it stands there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from tests.servers.grpc.flight.clients import adbc
from tests.servers.grpc.running import RunningServer

DOCUMENT = Path(__file__).parents[4] / "docs" / "flight.md"


def test_the_examples_run(served: RunningServer) -> None:
    served.sql("DROP TABLE IF EXISTS cpu")
    text = DOCUMENT.read_text(encoding="utf-8").replace("127.0.0.1:4001", served.address)
    first, second, login, ingest = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"print": lambda _: None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for example in (first, second, login):
            exec(compile(example, str(DOCUMENT), "exec"), names)
    with adbc(served) as cursor:
        exec(compile(ingest, str(DOCUMENT), "exec"), {**names, "cursor": cursor})
    assert served.sql("SELECT count(*) AS n FROM cpu") == [{"n": 3}]
    assert served.sql("SELECT host FROM mem") == [{"host": "a"}]
    names["client"].close()
