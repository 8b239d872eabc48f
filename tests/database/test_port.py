"""What servers share on their way to the database: the gate, and the rule for the names of databases."""

from __future__ import annotations

import pytest

from tsdb.database import DatabaseGate, NotReady, resolve_database


class Named:
    """A database that knows some names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def has_database(self, name: str) -> bool:
        return name in self._names


@pytest.mark.parametrize(
    ("wanted", "names", "resolved"),
    [
        ("public", ("public",), "public"),
        ("missing", ("public",), "missing"),
        ("tsdb-public", ("public",), "public"),
        ("greptime-public", ("public",), "public"),
        ("tsdb-missing", ("public",), "missing"),
        ("tsdb-public", ("public", "tsdb-public"), "tsdb-public"),
        ("other-public", ("public",), "other-public"),
        ("tsdb-a-b", ("a-b",), "a-b"),
        ("my-db", ("my-db",), "my-db"),
        ("tsdb-", ("public",), ""),
        ("-public", ("public",), "-public"),
    ],
)
def test_a_name_may_begin_with_the_catalog(wanted: str, names: tuple[str, ...], resolved: str) -> None:
    assert resolve_database(wanted, Named(*names)) == resolved  # type: ignore[arg-type]


def test_a_gate_lets_requests_through_while_it_is_open() -> None:
    gate, database = DatabaseGate(), Named("public")
    for _ in range(2):
        with pytest.raises(NotReady, match="not ready"):
            gate.check()
        with pytest.raises(NotReady):
            _ = gate.database
        gate.open(database)  # type: ignore[arg-type]
        gate.check()
        assert gate.database is database  # type: ignore[comparison-overlap]
        gate.close()
