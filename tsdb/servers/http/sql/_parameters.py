"""The parameters of a request for statements: the text, the format of its results and what belongs to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from tsdb.errors import InvalidArguments
from tsdb.servers.http.sql._arrow import encode_arrow
from tsdb.servers.http.sql._formats import (
    Encoder,
    Epoch,
    FormatOptions,
    encode_influxdb_v1,
    encode_json,
    encode_tsdb_v1,
)
from tsdb.servers.http.sql._text import (
    encode_csv,
    encode_csv_with_names,
    encode_csv_with_names_and_types,
    encode_null,
    encode_table,
)
from tsdb.servers.http.wire import FORM, JSON, TEXT, Params, Request

_T = TypeVar("_T")

_CSV = "text/csv; charset=utf-8"
_EPOCHS: Final[dict[str, Epoch]] = {"ns": "ns", "u": "us", "us": "us", "µ": "us", "ms": "ms", "s": "s"}
_COMPRESSIONS: Final[dict[str, Literal["zstd", "lz4"]]] = {"zstd": "zstd", "lz4": "lz4"}
_LIMIT_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how clients name it, what its bytes are, and whether it can carry more than one answer."""

    name: str
    content_type: str
    encode: Encoder
    has_many: bool = False

    def is_packed(self, options: FormatOptions) -> bool:
        """Whether its bytes are compressed already."""
        return self.name == "arrow" and options.compression is not None

    @property
    def older_name(self) -> str:
        """As clients that were made for another server call it."""
        return "greptimedb_v1" if self.name == "tsdb_v1" else self.name


_TSDB_V1 = Format("tsdb_v1", JSON, encode_tsdb_v1, has_many=True)
FORMATS: dict[str, Format] = {
    "tsdb_v1": _TSDB_V1,
    "greptimedb_v1": _TSDB_V1,
    "influxdb_v1": Format("influxdb_v1", JSON, encode_influxdb_v1, has_many=True),
    "csv": Format("csv", _CSV, encode_csv),
    "csvwithnames": Format("csv", _CSV, encode_csv_with_names),
    "csvwithnamesandtypes": Format("csv", _CSV, encode_csv_with_names_and_types),
    "table": Format("table", TEXT, encode_table),
    "arrow": Format("arrow", "application/arrow", encode_arrow),
    "json": Format("json", JSON, encode_json),
    "null": Format("null", TEXT, encode_null),
}


async def read_form(request: Request) -> Params | None:
    """Return the parameters of a POST's body, none for another method; None if the body is no form."""
    if request.method != "POST":
        return Params([])
    content_type = request.headers.get("content-type")
    if content_type is not None and content_type.partition(";")[0].strip().lower() != FORM:
        return None
    return Params.parse(await request.body())


def find(name: str, query: Params, form: Params) -> str | None:
    """Return a parameter of the query string, else of the form."""
    found = query.get(name)
    return found if found is not None else form.get(name)


def require_sql(query: Params, form: Params) -> str:
    """Return the statements."""
    text = find("sql", query, form)
    if text is None:
        raise InvalidArguments("sql parameter is required.")
    return text


def read_limit(query: Params) -> int | None:
    """Return how many rows of a result are wanted at most."""
    text = query.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LIMIT_DIGITS_MAX):
        raise InvalidArguments(f"the parameter limit must be a number of rows, received {text!r}")
    return int(text)


def read_format(name: str | None) -> Format:
    """Return the format of a name; without one it is tsdb_v1."""
    return _TSDB_V1 if not name else _choose("format", name, FORMATS)


def read_epoch(query: Params, form: Params) -> Epoch | None:
    text = find("epoch", query, form)
    return None if not text else _choose("epoch", text, _EPOCHS)


def read_compression(query: Params) -> Literal["zstd", "lz4"] | None:
    text = query.get("compression")
    return None if not text else _choose("compression", text, _COMPRESSIONS)


def _choose(parameter: str, text: str, known: Mapping[str, _T]) -> _T:
    """Return what a value of a parameter stands for."""
    found = known.get(text.lower())
    if found is None:
        names = ", ".join(known)
        raise InvalidArguments(f"the parameter {parameter} is one of {names}; received {text[:40]!r}")
    return found
