"""Values for the placeholders of a statement: `?` and `$1` take a sequence, `$name` takes a mapping.

Values go into the statement as literals of their Arrow type. The values of an INSERT of one row are read as a table
instead, so that they get to their columns without becoming text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID

import pyarrow as pa

from tsdb.errors import InvalidArguments
from tsdb.sql.template import PARAMETERS_TABLE, StatementTemplate, parse_template

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with its values, and the tables that it reads them from."""

    text: str
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


def bind(text: str, parameters: Parameters | None) -> Bound:
    """Put values into the placeholders of a statement."""
    if parameters is None:
        return Bound(text)
    template = parse_template(text)
    values = [_scalar(value) for value in _ordered(template, parameters)]
    insert = template.as_insert_select()
    if insert is not None and values:
        columns = {f"p{number}": pa.array([value], value.type) for number, value in enumerate(values)}
        return Bound(insert, {PARAMETERS_TABLE: pa.table(columns)})
    return Bound(template.with_row(values))


def _ordered(template: StatementTemplate, parameters: Parameters) -> list[Any]:
    """Return the values in the order of the placeholders' numbers."""
    if isinstance(parameters, Mapping):
        if template.places and not template.names:
            raise InvalidArguments("the placeholders of the statement are not named", hint="give a list of values")
        _check_names(template, parameters)
        return [parameters[name] for name in template.names]
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidArguments(
            f"params is a list or a dictionary, not {type(parameters).__name__}", hint="give one value as [value]"
        )
    if template.names:
        raise InvalidArguments("the placeholders of the statement are named", hint="give a dictionary of values")
    if len(parameters) != template.count:
        raise InvalidArguments(f"the statement has {template.count} placeholders, {len(parameters)} values were given")
    return list(parameters)


def _check_names(template: StatementTemplate, parameters: Mapping[str, Any]) -> None:
    missing = [name for name in template.names if name not in parameters]
    if missing:
        raise InvalidArguments(f"no value was given for ${missing[0]}")
    unknown = [name for name in parameters if name not in template.names]
    if unknown:
        raise InvalidArguments(f"the statement has no placeholder ${unknown[0]}")


def _scalar(value: Any) -> pa.Scalar:
    if isinstance(value, UUID):
        value = str(value)
    elif isinstance(value, Enum):
        value = value.value
    elif type(value).__module__ == "numpy" and getattr(value, "dtype", None) is not None and value.dtype.kind in "biuf":
        value = value.item()
    try:
        return pa.scalar(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArguments(f"a value of type {type(value).__name__} cannot be a parameter: {error}") from error
