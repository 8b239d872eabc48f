"""`information_schema.columns` as PostgreSQL has it.

It has the columns of every channel, and those of the SQL standard that only PostgreSQL fills: tools choose types by
`data_type` and `udt_name`, which are here PostgreSQL's own names.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tsdb.model import CATALOG, DataType
from tsdb.query.information_schema import InformationContext, columns_of, described
from tsdb.query.pg_catalog._oids import TYPES_BY_OID, type_oid
from tsdb.query.session import Channel

_ABSENT = (
    "interval_type", "character_set_catalog", "character_set_schema", "collation_catalog", "collation_schema",
    "domain_catalog", "domain_schema", "domain_name", "scope_catalog", "scope_schema", "scope_name",
    "identity_generation", "identity_start", "identity_increment", "identity_maximum", "identity_minimum",
)  # fmt: skip
_ALIKE = {
    "udt_catalog": CATALOG,
    "udt_schema": "pg_catalog",
    "is_self_referencing": "NO",
    "is_identity": "NO",
    "identity_cycle": "NO",
    "is_generated": "NEVER",
    "is_updatable": "YES",
}


def information_columns(context: InformationContext) -> pa.Table:
    """The columns of everything, in PostgreSQL's words."""
    tables = described(context)
    rows = columns_of(tables, Channel.POSTGRES)
    types = [column.type for table in tables for column in table.columns]

    def text_of(of: Callable[[DataType], str]) -> pa.Array:
        found = {kind: of(kind) for kind in set(types)}
        return pa.array([found[kind] for kind in types], pa.string())

    place = rows.schema.get_field_index("data_type")
    rows = rows.set_column(place, "data_type", text_of(lambda kind: TYPES_BY_OID[type_oid(kind)].title))
    rows = rows.append_column("udt_name", text_of(lambda kind: TYPES_BY_OID[type_oid(kind)].name))
    numbers = [each + 1 for table in tables for each in range(len(table.columns))]
    rows = rows.append_column("dtd_identifier", pa.array([str(each) for each in numbers], pa.string()))
    radix = [2 if kind.is_integer or kind.is_float else 10 if kind.precision else None for kind in types]
    rows = rows.append_column("numeric_precision_radix", pa.array(radix, pa.int32()))
    for name, value in _ALIKE.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
    for name in ("interval_precision", "maximum_cardinality"):
        rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.int32()))
    for name in _ABSENT:
        rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows
