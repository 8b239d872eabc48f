"""Lines of many requests against a dictionary: series that the parser knows, tables that grow, restarts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.database.cases import open_case_database, render
from tsdb.database import Database, Session, read_all
from tsdb.ingest import NewTable
from tsdb.ingest.influx import parse_lines

NEW_TABLE = NewTable(options={"merge_mode": "last_non_null"})
TAGS = ("a", "b", "c", "d")
FIELDS = ("f", "g", "h")
DIVIDED = (
    "CREATE TABLE m (a STRING, ts TIMESTAMP(9) TIME INDEX, f DOUBLE, PRIMARY KEY (a)) "
    "PARTITION ON COLUMNS (a) (a < 'v2', a >= 'v2') WITH (merge_mode = 'last_non_null')"
)

Key = tuple[int, tuple[str | None, ...]]


def make_body(chance: random.Random, stage: int, model: dict[Key, dict[str, float]]) -> bytes:
    """Make lines of a request and write them into the model; later stages have more tags and fields."""
    lines = []
    for _ in range(chance.randrange(1, 12)):
        names = [name for name in TAGS[: 1 + stage] if chance.random() < 0.7]
        tags = {name: f"v{chance.randrange(4)}" for name in names}
        fields = {name: float(chance.randrange(100)) for name in FIELDS[: 1 + stage] if chance.random() < 0.6}
        fields = fields or {"f": 1.0}
        time = chance.randrange(5)
        chance.shuffle(names)
        key = "".join(f",{name}={tags[name]}" for name in names)
        lines.append(f"m{key} {','.join(f'{name}={value}' for name, value in fields.items())} {time}")
        row = model.setdefault((time, tuple(tags.get(name) for name in TAGS)), {})
        row.update(fields)
    return "\n".join(lines).encode()


def read(database: Database, columns: int) -> list[str]:
    names = [*TAGS[:columns], *FIELDS[:columns]]
    (output,) = list(database.execute(f"SELECT {', '.join(names)} FROM m", Session()))
    assert hasattr(output, "schema")
    return sorted(render(read_all(output))[1:])


def expected(model: dict[Key, dict[str, float]], columns: int) -> list[str]:
    return sorted(
        " | ".join(
            str(cell) if cell is not None else "NULL" for cell in (*tags[:columns], *map(row.get, FIELDS[:columns]))
        )
        for (_, tags), row in model.items()
    )


@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_written_is_what_is_read(seed: int, is_divided: bool, tmp_path: Path) -> None:
    chance = random.Random(seed)
    model: dict[Key, dict[str, float]] = {}
    local = open_case_database(tmp_path)
    if is_divided:
        list(local.database.execute(DIVIDED, Session()))
    for stage in range(3):
        for _ in range(6):
            rows = parse_lines(make_body(chance, stage, model), precision="ns", now_ns=0)
            local.database.ingest(rows, Session(), NEW_TABLE)
        if chance.random() < 0.5:
            list(local.database.execute("ADMIN flush_table('m')", Session()))
        if chance.random() < 0.5:
            local.close()
            local = open_case_database(tmp_path)
    assert read(local.database, 3) == expected(model, 3)
    local.close()
