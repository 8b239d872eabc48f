"""The names that completion offers: those of the languages, and those of the server, which are asked for when needed.

Names of the server are remembered for a while, so that typing does not ask it again and again. A server that does not
answer leaves the names of the languages.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from tsdb.cli.server import ServerAddress, run_statement, send
from tsdb.errors import TsdbError
from tsdb.promql import FUNCTIONS
from tsdb.sql.aggregate_names import AGGREGATE_NAMES, WINDOW_NAMES
from tsdb.sql.function_names import EXPANSIONS, RENAMES
from tsdb.sql.keywords import KEYWORDS

KEPT_SECONDS = 20.0
NAMES_MAX = 20_000
"""How many columns, metrics or values are asked for."""
_ANSWER_BYTES_MAX = 16 << 20
_ASK_SECONDS = 5.0
_KINDS_MAX = 256

_SCALARS = (
    "abs arrow_cast ceil coalesce concat date_bin date_format date_part date_trunc exp extract floor greatest ifnull"
    " least length ln log10 lower matches matches_term now nullif pow regexp_like regexp_replace round split_part sqrt"
    " strpos substr to_timestamp to_unixtime trim upper"
)
SQL_FUNCTIONS = tuple(sorted({*AGGREGATE_NAMES, *WINDOW_NAMES, *RENAMES, *EXPANSIONS, *_SCALARS.split()}))
SQL_KEYWORDS = tuple(sorted(KEYWORDS))
_PROMQL_AGGREGATES = "avg bottomk count count_values group limitk limit_ratio max min quantile stddev stdvar sum topk"
_PROMQL_KEYWORDS = "and bool by group_left group_right ignoring offset on or unless without"
PROMQL_WORDS = tuple(sorted({*FUNCTIONS, *_PROMQL_AGGREGATES.split(), *_PROMQL_KEYWORDS.split()}))


@dataclass
class ServerNames:
    """Names of a server, by database."""

    address: ServerAddress
    _kept: dict[tuple[str, ...], tuple[float, Sequence[tuple[str, ...]]]] = field(default_factory=dict)

    def forget(self) -> None:
        """Ask again for everything: a statement may have created or dropped it."""
        self._kept.clear()

    def databases(self, database: str) -> list[str]:
        return [name for (name,) in self._sql(database, "SELECT schema_name FROM information_schema.schemata")]

    def tables(self, database: str) -> list[str]:
        text = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {_literal(database)}"
        return [name for (name,) in self._sql(database, text)]

    def columns(self, database: str) -> dict[str, list[str]]:
        """The columns of each table."""
        found: dict[str, list[str]] = defaultdict(list)
        text = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = "
        for table, column in self._sql(database, text + _literal(database)):
            found[table].append(column)
        return found

    def metrics(self, database: str) -> list[str]:
        return self._prometheus(database, "label/__name__/values")

    def labels(self, database: str, metric: str | None) -> list[str]:
        return self._prometheus(database, "labels", metric)

    def values(self, database: str, label: str, metric: str | None) -> list[str]:
        return self._prometheus(database, f"label/{label}/values", metric)

    def _sql(self, database: str, text: str) -> Sequence[tuple[str, ...]]:
        def ask() -> Iterable[tuple[str, ...]]:
            with run_statement(self._quick(), f"{text} LIMIT {NAMES_MAX}", database=database) as result:
                rows = result.read_all()  # type: ignore[union-attr]
            return zip(*(column.to_pylist() for column in rows.columns), strict=True)

        return self._remembered((database, text), ask)

    def _prometheus(self, database: str, path: str, metric: str | None = None) -> list[str]:
        def ask() -> Iterable[tuple[str, ...]]:
            params = {"db": database, "limit": str(NAMES_MAX), **({"match[]": metric} if metric else {})}
            with send(self._quick(), "GET", f"/v1/prometheus/api/v1/{path}", params=params) as answer:
                return [(name,) for name in orjson.loads(answer.read(_ANSWER_BYTES_MAX))["data"]]

        return [name for (name,) in self._remembered((database, path, metric or ""), ask)]

    def _quick(self) -> ServerAddress:
        """Completion does not wait as long as a statement does."""
        return replace(self.address, timeout_seconds=_ASK_SECONDS, connect_seconds=_ASK_SECONDS)

    def _remembered(
        self, key: tuple[str, ...], ask: Callable[[], Iterable[tuple[str, ...]]]
    ) -> Sequence[tuple[str, ...]]:
        asked_at, names = self._kept.get(key, (0.0, ()))
        if time.monotonic() - asked_at > KEPT_SECONDS or not asked_at:
            try:
                names = list(ask())
            except (TsdbError, orjson.JSONDecodeError, KeyError):
                names = ()
            if len(self._kept) >= _KINDS_MAX:
                self._kept.clear()
            self._kept[key] = time.monotonic(), names
        return names


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
