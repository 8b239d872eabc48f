"""Files of COPY and of external tables: where they may be, and how batches go in and out of them.

All paths lie under one directory, the copy root; no spelling of a path leads out of it. A file that is written appears
under its name only when it is complete.
"""

from __future__ import annotations

import lzma
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.json as pj
import pyarrow.parquet as pq
import pyarrow.types as pt

from tsdb._kernels import encode_json_lines
from tsdb.errors import InvalidArguments, Status, TsdbError, Unsupported
from tsdb.model import ColumnInfo, Kind

FORMATS = ("parquet", "csv", "json")
_COMPRESSIONS = {"gzip": "gzip", "zstd": "zstd", "bzip2": "bz2", "xz": "xz"}
_REMOTE = re.compile(r"(s3|s3a|oss|gs|gcs|azblob|http|https)://", re.IGNORECASE)
_HEX_MARK = "\\x"
"""Begins bytes that are written as hex, as in PostgreSQL."""
_TEXT_KINDS = (Kind.STRING, Kind.JSON, Kind.BINARY)
_CSV_TEXT_KINDS = (*_TEXT_KINDS, Kind.DECIMAL, Kind.UINT64)
_WIDEST_DECIMAL = pa.decimal256(76, 38)
_SUFFIX_COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}


class CopyFailed(TsdbError):
    """A file could not be read or written."""

    status = Status.ENGINE_EXECUTE_QUERY


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What WITH (…) says about files."""

    format: str = "parquet"
    compression: str | None = None
    delimiter: str = ","
    has_header: bool = True
    skip_bad_records: bool = False
    timestamp_format: str | None = None
    date_format: str | None = None
    time_format: str | None = None
    time_suffix: str = ""
    """Follows a time that is written as text: `Z` where readers would take it for a local time."""

    @classmethod
    def parse(cls, options: Iterable[tuple[str, str]]) -> FileOptions:
        given = {key.lower(): value for key, value in options}
        kind = given.get("format", "parquet").lower()
        if kind not in FORMATS:
            raise InvalidArguments(f"there is no file format {kind!r}", hint=f"use {', '.join(FORMATS)}")
        compression = given.get("compression_type", "").lower() or None
        if compression == "uncompressed":
            compression = None
        if compression is not None and compression not in _COMPRESSIONS:
            raise InvalidArguments(f"there is no compression {compression!r}", hint=f"use {', '.join(_COMPRESSIONS)}")
        return cls(
            format=kind,
            compression=compression,
            delimiter=_delimiter(given.get("delimiter")),
            has_header=_flag(given.get("has_header", given.get("headers")), default=True),
            skip_bad_records=_flag(given.get("skip_bad_records"), default=False),
            timestamp_format=given.get("timestamp_format"),
            date_format=given.get("date_format"),
            time_format=given.get("time_format"),
        )


def _delimiter(text: str | None) -> str:
    if text is None:
        return ","
    if text.isdigit() and int(text) < 128:
        return chr(int(text))
    if len(text) == 1:
        return text
    raise InvalidArguments(f"the delimiter is one character or the number of a byte, not {text!r}")


def _flag(text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidArguments(f"expected true or false, not {text!r}")
    return text.lower() == "true"


def confined(path: str, root: Path | None) -> Path:
    """Return a path under the copy root; InvalidArguments for one that leads elsewhere."""
    if _REMOTE.match(path):
        raise Unsupported(f"COPY reads and writes local files only, not {path!r}")
    if root is None:
        raise InvalidArguments("this server has no directory for COPY")
    wanted = Path(path.removeprefix("file://"))
    base = root.resolve()
    found = (base / wanted).resolve()
    if not found.is_relative_to(base):
        raise InvalidArguments(
            f"the path {path!r} is outside of the directory for COPY", hint="give a path relative to it"
        )
    return found


def files_at(path: Path, text: str, pattern: str | None) -> list[Path]:
    """Return the files a path means: itself, or those of a directory whose names match a pattern."""
    if not text.endswith("/") and not path.is_dir():
        return [path]
    try:
        matches = re.compile(pattern or ".*")
    except re.error as error:
        raise InvalidArguments(f"the pattern {pattern!r} is not a regular expression: {error}") from error
    if not path.is_dir():
        return []
    return sorted(each for each in path.iterdir() if each.is_file() and matches.search(each.name))


def write_file(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], options: FileOptions) -> int:
    """Write batches into one new file, whole or not at all; the number of rows."""
    rows = 0
    with (
        _new_file(path) as temporary,
        temporary.open("wb") as raw,
        _compressed(raw, options) as sink,
        _writer(sink, schema, options) as write,
    ):
        for batch in batches:
            write(batch)
            rows += batch.num_rows
    return rows


def write_text(path: Path, text: str) -> None:
    """Write a text into one new file, whole or not at all."""
    with _new_file(path) as temporary:
        temporary.write_text(text, "utf-8")


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """Yield the path to write to; at the end the file is synced and gets its name."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except (OSError, pa.ArrowException) as error:
        raise CopyFailed(f"cannot write {path.name}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _compressed(raw: IO[bytes], options: FileOptions) -> Iterator[Any]:
    if options.compression is None or options.format == "parquet":
        yield raw
    elif options.compression == "xz":
        with lzma.LZMAFile(raw, "wb") as sink:
            yield sink
    else:
        with pa.CompressedOutputStream(raw, _COMPRESSIONS[options.compression]) as sink:
            yield sink


@contextmanager
def _writer(sink: Any, schema: pa.Schema, options: FileOptions) -> Iterator[Any]:
    if options.format == "parquet":
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            yield writer.write_batch
    elif options.format == "json":
        yield lambda batch: _write_json(sink, as_text(batch, options))
    else:
        written = csv.WriteOptions(include_header=options.has_header, delimiter=options.delimiter)
        with csv.CSVWriter(sink, as_text(schema.empty_table(), options).schema, write_options=written) as writer:
            yield lambda batch: writer.write(as_text(batch, options))


def _write_json(sink: Any, batch: pa.RecordBatch) -> None:
    position = 0
    while position < batch.num_rows:
        lines, position = encode_json_lines(batch, start=position)
        sink.write(lines)


def as_text(data: Any, options: FileOptions) -> Any:
    """Return a batch whose times are text as the options want them, and whose bytes are hex behind `\\x`."""
    arrays, names = [], data.schema.names
    for column, kind in zip(data.columns, data.schema.types, strict=True):
        arrays.append(_as_text(column, kind, options))
    if isinstance(data, pa.Table):
        return pa.table(arrays, names=names)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _as_text(column: Any, kind: pa.DataType, options: FileOptions) -> Any:
    if pt.is_timestamp(kind):
        if options.timestamp_format is not None:
            return pc.strftime(column, format=options.timestamp_format)
        text = pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
        return pc.binary_join_element_wise(text, options.time_suffix, "") if options.time_suffix else text
    if pt.is_date(kind) and options.date_format is not None:
        return pc.strftime(column.cast(pa.timestamp("s")), format=options.date_format)
    if pt.is_date(kind) or pt.is_time(kind) or pt.is_decimal(kind) or pt.is_dictionary(kind):
        return column.cast(pa.string())
    if pt.is_binary(kind):
        encoded = [None if value is None else _HEX_MARK + value.hex() for value in column.to_pylist()]
        return pa.array(encoded, pa.string())
    return column


def numbers_of_text(column: pa.Array, kind: Kind) -> pa.Array:
    """Return the numbers that texts of a file mean, with all of their digits where the widest type has them."""
    if not pt.is_string(column.type):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    for wanted in (pa.uint64() if kind is Kind.UINT64 else _WIDEST_DECIMAL, pa.float64()):
        with suppress(pa.ArrowInvalid):
            return trimmed.cast(wanted)
    return column


def bytes_of_text(column: pa.Array) -> pa.Array:
    """Return the bytes that texts of a file mean: what `as_text` wrote as hex, and anything else as it is."""
    if not pt.is_string(column.type):
        return column
    return pa.array([_bytes_of(value) for value in column.to_pylist()], pa.binary())


def vectors_of_text(column: pa.Array) -> pa.Array:
    """Return the bytes of vectors that `as_text` wrote as hex; vectors such as `[1.0, 2.0]` as they are."""
    is_hex = pt.is_string(column.type) and pc.all(pc.starts_with(column, pattern=_HEX_MARK)).as_py()
    return bytes_of_text(column) if is_hex else column


def _bytes_of(text: str | None) -> bytes | None:
    if text is None or not text.startswith(_HEX_MARK):
        return None if text is None else text.encode()
    try:
        return bytes.fromhex(text[len(_HEX_MARK) :])
    except ValueError as error:
        raise InvalidArguments(
            f"{text[:40]!r} is not hexadecimal: expected pairs of hexadecimal digits after {_HEX_MARK}"
        ) from error


def read_file(path: Path, options: FileOptions, columns: tuple[ColumnInfo, ...] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file; what Arrow would change by its looks stays the text that it is."""
    try:
        yield from _read(path, options, columns)
    except FileNotFoundError as error:
        raise CopyFailed(f"there is no file {path.name}") from error
    except (OSError, pa.ArrowException, lzma.LZMAError) as error:
        raise CopyFailed(f"cannot read {path.name}: {error}") from error


def _read(path: Path, options: FileOptions, columns: tuple[ColumnInfo, ...]) -> Iterator[pa.RecordBatch]:
    if options.format == "parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=65_536)
        return
    types = _types(path, options, columns) if columns else {}
    with _opened(path, options, types) as reader:
        yield from reader


def _types(path: Path, options: FileOptions, columns: tuple[ColumnInfo, ...]) -> dict[str, pa.DataType]:
    """The types of columns that Arrow would convert by what they look like.

    It drops zones of times and zeros of `007`, and reads numbers as integers with a sign or as floats.
    """
    inferred = _inferred(path, options, {})
    given = [column for column in columns if column.name in inferred]
    if options.format == "csv":
        found = {column.name: pa.string() for column in given if column.type.kind in _CSV_TEXT_KINDS}
    else:
        found = _unsigned(path, options, given)
    return found | {column.name: pa.string() for column in given if _is_time(inferred[column.name], column)}


def _unsigned(path: Path, options: FileOptions, columns: list[ColumnInfo]) -> dict[str, pa.DataType]:
    """The columns that are read as integers without a sign, unless the file has fractions in them."""
    found = {column.name: pa.uint64() for column in columns if column.type.kind is Kind.UINT64}
    try:
        if found:
            _inferred(path, options, found)
    except pa.ArrowInvalid:
        return {}
    return found


def _inferred(path: Path, options: FileOptions, types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    with _opened(path, options, types) as reader:
        return {field.name: field.type for field in reader.schema}


def _is_time(inferred: pa.DataType, column: ColumnInfo) -> bool:
    is_date_or_time = pt.is_timestamp(inferred) or pt.is_date(inferred)
    return is_date_or_time and (column.type.is_timestamp or column.type.kind in _TEXT_KINDS)


@contextmanager
def _opened(path: Path, options: FileOptions, types: dict[str, pa.DataType]) -> Iterator[Any]:
    with path.open("rb") as raw, _decompressed(raw, path, options) as source:
        if options.format == "json":
            parse_options = pj.ParseOptions(explicit_schema=pa.schema(list(types.items())))
            with pj.open_json(source, parse_options=parse_options) as reader:
                yield reader
        else:
            with _open_csv(source, options, types) as reader:
                yield reader


@contextmanager
def _decompressed(raw: IO[bytes], path: Path, options: FileOptions) -> Iterator[Any]:
    compression = options.compression or _SUFFIX_COMPRESSION.get(path.suffix)
    if compression is None:
        yield raw
    elif compression == "xz":
        with lzma.LZMAFile(raw) as source:
            yield source
    else:
        with pa.CompressedInputStream(raw, _COMPRESSIONS[compression]) as source:
            yield source


def _open_csv(source: Any, options: FileOptions, types: dict[str, pa.DataType]) -> Any:
    def on_invalid(row: Any) -> str:
        return "skip" if options.skip_bad_records else "error"

    return csv.open_csv(
        source,
        read_options=csv.ReadOptions(autogenerate_column_names=not options.has_header),
        parse_options=csv.ParseOptions(delimiter=options.delimiter, invalid_row_handler=on_invalid),
        convert_options=csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
