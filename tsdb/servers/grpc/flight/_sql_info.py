"""SqlInfo of Flight SQL: facts about the server by number, and SQL types by their ODBC numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.model import Kind
from tsdb.servers.grpc.flight._prepared import IDLE_SECONDS_MAX
from tsdb.sql.keywords import KEYWORDS

_LIST = pa.list_(pa.field("$data$", pa.int32()))
_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), _LIST)),
    ]
)
_STRING, _BOOL, _BIGINT, _INT32, _STRINGS, _LISTS = range(6)

SQL_INFO = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE)])


_NO_LIMITS = range(541, 562)
"""How long names, literals and statements may be, and how many things may stand in them: 0 where there is no limit."""
_SYNTAX: dict[int, tuple[int, Any]] = {
    500: (_BOOL, False),  # CREATE of catalogs
    501: (_BOOL, True),  # CREATE of schemas
    502: (_BOOL, True),  # CREATE of tables
    503: (_INT32, 3),  # names without quotes become lower case
    504: (_STRING, '"'),
    505: (_INT32, 0),  # names in quotes: the protocol has no number for "as they are"
    506: (_BOOL, True),
    507: (_INT32, 0),  # nulls are sorted high
    508: (_STRINGS, sorted(KEYWORDS)),
    **{number: (_STRINGS, []) for number in range(509, 513)},  # functions by kind
    513: (_STRING, "\\"),
    514: (_STRING, ""),
    515: (_BOOL, True),  # AS
    516: (_BOOL, True),
    517: (_LISTS, []),  # CONVERT
    518: (_BOOL, True),
    519: (_BOOL, False),
    520: (_BOOL, True),  # expressions in ORDER BY
    521: (_BOOL, True),
    522: (_INT32, 3),  # GROUP BY
    523: (_BOOL, False),
    524: (_BOOL, True),  # NOT NULL
    525: (_INT32, 3),  # minimum and core grammar
    526: (_INT32, 1),  # entry level
    527: (_BOOL, False),
    528: (_INT32, 2),  # outer joins in full
    529: (_STRING, "database"),
    530: (_STRING, "procedure"),
    531: (_STRING, "catalog"),
    532: (_BOOL, True),
    **dict.fromkeys((533, 534, 535), (_INT32, 0)),
    536: (_BOOL, False),  # SELECT FOR UPDATE
    537: (_BOOL, False),  # procedures
    538: (_INT32, 7),  # subqueries in comparisons, EXISTS and IN
    539: (_BOOL, True),
    540: (_INT32, 3),  # UNION and UNION ALL
    **dict.fromkeys(_NO_LIMITS, (_BIGINT, 0)),
    552: (_BIGINT, 255),  # characters of the name of a database
    556: (_BOOL, False),
    559: (_BIGINT, 255),  # characters of the name of a table
    562: (_BIGINT, 0),  # isolation of transactions: none; drivers of JDBC want a long
    563: (_BOOL, False),
    564: (_INT32, 1),
    565: (_BOOL, False),
    566: (_BOOL, False),
    567: (_INT32, 2),  # rows are read forward
    **dict.fromkeys((568, 570, 571), (_INT32, 0)),
    569: (_INT32, 2),  # and not changed
    572: (_BOOL, True),  # batches of updates
    **dict.fromkeys(range(573, 577), (_BOOL, False)),
}
"""Features of the SQL dialect, by the numbers of the protocol; JDBC drivers request all of them."""


def _facts(version: str) -> dict[int, tuple[int, Any]]:
    """By the numbers of the protocol: which branch of the union, and the value."""
    return {
        0: (_STRING, "tsdb"),
        1: (_STRING, version),
        2: (_STRING, pa.__version__),
        3: (_BOOL, False),  # read only
        4: (_BOOL, True),  # SQL
        5: (_BOOL, False),  # Substrait
        8: (_INT32, 0),  # transactions: none
        9: (_BOOL, True),  # cancelling
        10: (_BOOL, True),  # bulk ingestion
        11: (_BOOL, False),  # bulk ingestion in transactions
        100: (_INT32, IDLE_SECONDS_MAX * 1_000),  # how long a prepared statement lives unused, in ms
        101: (_INT32, 0),
        **_SYNTAX,
    }


def sql_info(wanted: Sequence[int], version: str) -> pa.RecordBatch:
    """Return the requested facts, or all; unknown ones are left out."""
    facts = _facts(version)
    chosen = [number for number in dict.fromkeys(wanted or facts) if number in facts]
    branches: list[list[Any]] = [[] for _ in range(_VALUE.num_fields)]
    offsets, kinds = [], []
    for number in chosen:
        branch, value = facts[number]
        kinds.append(branch)
        offsets.append(len(branches[branch]))
        branches[branch].append(value)
    children = [pa.array(values, _VALUE.field(at).type) for at, values in enumerate(branches)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, [field.name for field in _VALUE]
    )
    return pa.record_batch([pa.array(chosen, pa.uint32()), values.cast(_VALUE)], schema=SQL_INFO)


XDBC_TYPES = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)

_NUMBERS: dict[Kind, tuple[int, int, int]] = {
    Kind.INT8: (-6, 3, 10),
    Kind.UINT8: (-6, 3, 10),
    Kind.INT16: (5, 5, 10),
    Kind.UINT16: (5, 5, 10),
    Kind.INT32: (4, 10, 10),
    Kind.UINT32: (4, 10, 10),
    Kind.INT64: (-5, 19, 10),
    Kind.UINT64: (-5, 20, 10),
    Kind.FLOAT32: (7, 24, 2),
    Kind.FLOAT64: (8, 53, 2),
    Kind.DECIMAL: (3, 38, 10),
}
"""The number of a type, how many digits it has, and to which base."""
_TIMES = {
    Kind.TIMESTAMP_SECOND: 19,
    Kind.TIMESTAMP_MILLISECOND: 23,
    Kind.TIMESTAMP_MICROSECOND: 26,
    Kind.TIMESTAMP_NANOSECOND: 29,
}
"""How long the text of a timestamp is."""
_TEXTS = {Kind.STRING: 12, Kind.JSON: 12}
_BYTES = {Kind.BINARY: -3, Kind.VECTOR: -3}


def _type_row(kind: Kind) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type_name": kind.value,
        "nullable": 1,
        "case_sensitive": kind in _TEXTS,
        "searchable": 3 if kind in _TEXTS else 2,
        "fixed_prec_scale": False,
        "local_type_name": kind.value,
    }
    if kind in _NUMBERS:
        number, size, radix = _NUMBERS[kind]
        row |= {"data_type": number, "column_size": size, "num_prec_radix": radix, "auto_increment": False}
        row["unsigned_attribute"] = kind.value.startswith("U")
        if kind is Kind.DECIMAL:
            row |= {"create_params": ["precision", "scale"], "minimum_scale": 0, "maximum_scale": 38}
    elif kind in _TIMES:
        row |= {"data_type": 93, "column_size": _TIMES[kind], "datetime_subcode": 3}
    elif kind is Kind.DATE:
        row |= {"data_type": 91, "column_size": 10, "datetime_subcode": 1}
    else:
        row["data_type"] = _TEXTS.get(kind) or _BYTES.get(kind) or -7
    if kind in _TEXTS or kind in _TIMES or kind is Kind.DATE:
        row |= {"literal_prefix": "'", "literal_suffix": "'"}
    elif kind in _BYTES:
        row |= {"literal_prefix": "X'", "literal_suffix": "'"}
    row["sql_data_type"] = 9 if kind in _TIMES or kind is Kind.DATE else row["data_type"]
    return row


@cache
def _all_types() -> pa.RecordBatch:
    rows = sorted((_type_row(kind) for kind in Kind), key=lambda row: (row["data_type"], row["type_name"]))
    return pa.RecordBatch.from_pylist(rows, XDBC_TYPES)


def xdbc_types(wanted: int | None) -> pa.RecordBatch:
    """Return the types of SQL, or those of one number."""
    found = _all_types()
    return found if wanted is None else found.filter(pc.equal(found.column("data_type"), wanted))
