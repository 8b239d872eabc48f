"""A RangeRunner over nothing but DataFusion and tables in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from datafusion import DataFrame, SessionConfig, SessionContext

from tsdb.query.errors import execution_error, planning_error
from tsdb.query.range import SlotMemory, Slots, TimeIndex, run_range
from tsdb.sql.lexer import tokenize, unquote
from tsdb.sql.range_query import find_range
from tsdb.sql.statements import Dialect


class PlainRunner:
    """Executes SQL over the tables it was given."""

    def __init__(
        self, *, time_zone: str = "UTC", now_ms: int = 0, dialect: Dialect = Dialect.GENERIC, slot_bytes: int = 0
    ) -> None:
        self.dialect = dialect
        self.time_zone = time_zone
        self.now_ms = now_ms
        self.slots = Slots(SlotMemory(slot_bytes))
        self.statements: list[str] = []
        config = SessionConfig({"datafusion.sql_parser.map_string_types_to_utf8view": "false"})
        config = config.set("datafusion.sql_parser.dialect", dialect.value).with_target_partitions(2)
        self._context = SessionContext(config)
        self._times: dict[str, TimeIndex] = {}

    def add(self, name: str, table: pa.Table, time: str = "ts", tags: tuple[str, ...] = ()) -> None:
        self._register(name, table)
        self._times[name] = TimeIndex(time, table.schema.field(time).type.unit, tags)

    def query(self, text: str) -> pa.Table:
        """Evaluate a statement with range queries."""
        query = find_range(text, tokenize(text, self.dialect))
        assert query is not None
        return run_range(query, self)

    def rows(self, text: str) -> list[tuple[object, ...]]:
        """Evaluate a statement; times come back as integers of their unit."""
        table = self.query(text)
        columns = [
            column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
            for column in table.columns
        ]
        return list(zip(*columns, strict=True))

    def run(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
        self.statements.append(text)
        frame = self._frame(text, tables or {})
        try:
            return frame.to_arrow_table()
        except Exception as error:
            raise execution_error(error) from error

    def check(self) -> None:
        """There is no deadline."""

    def aggregate(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Table | None:
        return None

    def schema(self, text: str, tables: Mapping[str, pa.Table] | None = None) -> pa.Schema:
        return self._frame(text, tables or {}).schema()

    def time_index(self, source: str) -> TimeIndex | None:
        return self._times.get(unquote(tokenize(source, self.dialect)[-2]))

    def _frame(self, text: str, tables: Mapping[str, pa.Table]) -> DataFrame:
        for name, table in tables.items():
            self._register(name, table)
        try:
            return self._context.sql(text)
        except Exception as error:
            raise planning_error(error) from error

    def _register(self, name: str, table: pa.Table) -> None:
        self._context.deregister_table(f'"{name}"')
        self._context.register_record_batches(f'"{name}"', [table.to_batches() or [_no_rows(table.schema)]])


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
