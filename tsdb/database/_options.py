"""What WITH (…) may say about a table or a database: which keys there are and what their values mean.

Values are validated and normalised when they are set, so that other modules read them without checks and SHOW CREATE
prints them in one form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tsdb.errors import InvalidArguments, Reason, Status, TsdbError
from tsdb.model import MergeMode
from tsdb.units import Duration, DurationTooLong, Size


class InvalidOption(InvalidArguments):
    """An option has a value that means nothing."""


class UnexpectedOption(TsdbError):
    """An option that a new table cannot have."""

    status = Status.UNEXPECTED
    sql_reason = Reason.INVALID_PARAMETER


COLUMNS_MAX = 10_000
"""A table with more columns is refused: every write would carry them all."""

_HUMAN_UNITS = (
    ("year", "years", 31_557_600),
    ("month", "months", 2_630_016),
    ("day", "days", 86_400),
    ("h", "h", 3_600),
    ("m", "m", 60),
    ("s", "s", 1),
)


def format_human(span: Duration) -> str:
    """Print a duration the way options show it: `7days`, `1h 30m`, `2years`."""
    seconds, rest_ns = divmod(int(span), 1_000_000_000)
    terms = []
    for one, many, scale in _HUMAN_UNITS:
        count, seconds = divmod(seconds, scale)
        if count:
            terms.append(f"{count}{one if count == 1 else many}")
    for unit, scale in (("ms", 1_000_000), ("us", 1_000), ("ns", 1)):
        count, rest_ns = divmod(rest_ns, scale)
        if count:
            terms.append(f"{count}{unit}")
    return " ".join(terms) or "0s"


def _duration(value: str) -> str:
    return format_human(Duration.parse(value))


def _window(value: str) -> str:
    """A window of time, which may be longer than any duration: then there is one window only."""
    if re.fullmatch(r"\s*\d+\s*[a-z]+\s*", value, re.IGNORECASE):
        try:
            Duration.parse(value)
        except DurationTooLong:
            return value.strip()
    return _duration(value)


def _positive_duration(value: str) -> str:
    span = Duration.parse(value)
    if not span:
        raise ValueError("it must be greater than 0")
    return format_human(span)


def _ttl(value: str) -> str:
    text = value.strip().lower()
    if text in ("", "forever"):
        return "forever"
    if text == "instant":
        return "instant"
    span = Duration.parse(value)
    return format_human(span) if span else "forever"


def _flag(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return value.lower()


def _merge_mode(value: str) -> str:
    """A mode, or '' for the default one."""
    return MergeMode(value.lower()).value if value else ""


def _size(value: str) -> str:
    size = float(Size.parse(value))
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{int(size)}B" if unit == "B" else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}TiB"


def _count(value: str) -> str:
    if int(value) <= 0:
        raise ValueError("expected a positive integer")
    return str(int(value))


def _row_group_rows(value: str) -> str:
    if not 1 <= int(value) <= 10_485_760:
        raise ValueError("expected 1 to 10485760")
    return str(int(value))


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return value.lower()

    return check


def _text(value: str) -> str:
    return value


def _output_size(value: str) -> str:
    if not Size.parse(value):
        raise ValueError("it must be greater than 0")
    return value


_SHARED: dict[str, Callable[[str], str]] = {
    "ttl": _ttl,
    "storage": _text,
    "append_mode": _flag,
    "merge_mode": _merge_mode,
    "skip_wal": _flag,
    "sst_format": _one_of("flat", "primary_key"),
    "memtable.type": _one_of("time_series", "partition_tree", "bulk"),
    "memtable.partition_tree.index_max_keys_per_shard": _count,
    "memtable.partition_tree.data_freeze_threshold": _count,
    "memtable.partition_tree.fork_dictionary_bytes": _size,
    "compaction.type": _one_of("twcs"),
    "compaction.twcs.time_window": _window,
    "compaction.twcs.trigger_file_num": _count,
    "compaction.twcs.max_output_file_size": _output_size,
    "compaction.twcs.fallback_to_local": _flag,
}

_TABLE: dict[str, Callable[[str], str]] = {
    **_SHARED,
    "comment": _text,
    "write_buffer_size": _size,
    "auto_flush_interval": _positive_duration,
    "max_row_group_row_count": _row_group_rows,
    "compaction.override": _flag,
    "compaction.twcs.remote_compaction": _flag,
    "index.inverted_index.ignore_column_ids": _text,
    "index.inverted_index.segment_row_count": _count,
    "index.type": _one_of("none", "skipping"),
    "index.granularity": _count,
    "index.false_positive_rate": _text,
    "primary_key_encoding": _one_of("dense", "sparse"),
    "wal_options": _text,
    "physical_metric_table": _text,
    "on_physical_table": _text,
    "location": _text,
    "format": _text,
    "pattern": _text,
    "table_data_model": _text,
    "otlp_metric_compat": _text,
    "repartition.column.hint": _text,
    "timeout": _duration,
    "wait": _flag,
}

_PREFIXES = ("memtable.bulk.", "memtable.partition_tree.", "tsdb.semantic.", "greptime.semantic.")
_FILE_KEYS = frozenset(
    {
        *("endpoint", "access_key_id", "secret_access_key", "session_token", "region", "enable_virtual_host_style"),
        *("bucket", "root", "compression_type", "delimiter", "has_header", "schema_infer_max_record"),
    }
)

ALTERABLE = frozenset(
    {
        *("ttl", "append_mode", "write_buffer_size", "auto_flush_interval", "sst_format", "skip_wal"),
        *("max_row_group_row_count", "compaction.twcs.time_window", "compaction.twcs.trigger_file_num"),
        *("compaction.twcs.max_output_file_size", "repartition.column.hint"),
    }
)
"""The options ALTER TABLE … SET can change."""

INHERITED_AT_CREATION = frozenset(
    {
        *("storage", "append_mode", "merge_mode", "skip_wal", "sst_format", "memtable.type"),
        "memtable.partition_tree.index_max_keys_per_shard",
        "memtable.partition_tree.data_freeze_threshold",
        "memtable.partition_tree.fork_dictionary_bytes",
    }
)
"""The options of a database that a new table takes over; ttl and compaction are looked up whenever they are needed."""


def _checked(options: Iterable[tuple[str, str]], known: dict[str, Callable[[str], str]], what: str) -> dict[str, str]:
    checked: dict[str, str] = {}
    for key, value in options:
        check = known.get(key)
        if check is None:
            if not key.startswith(_PREFIXES) and not (what == "table" and key in _FILE_KEYS):
                raise InvalidOption(f"Unrecognized {what} option key: {key}")
            check = _text
        try:
            checked[key] = check(value)
        except ValueError as error:
            raise InvalidOption(f"Invalid {what} option {key} = {value!r}: {error}") from error
    return checked


def check_table_options(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the options of a new table in their canonical form."""
    given = list(options)
    for key, value in given:
        if key == "ttl":
            try:
                _ttl(value)
            except ValueError as error:
                raise UnexpectedOption(f"Invalid table option ttl = {value!r}: {error}") from error
    checked = _checked(given, _TABLE, "table")
    check_modes(checked)
    return _complete(checked)


def check_modes(options: dict[str, str]) -> None:
    """Refuse modes that contradict each other."""
    if options.get("append_mode") == "true" and options.get("merge_mode") == MergeMode.LAST_NON_NULL.value:
        raise InvalidOption(
            "merge_mode last_non_null needs append_mode false",
            hint="rows of a table in append mode are never merged: leave merge_mode out",
        )


def _complete(options: dict[str, str]) -> dict[str, str]:
    if any(key.startswith("compaction.twcs.") for key in options):
        options.setdefault("compaction.type", "twcs")
    return options


def check_database_options(options: Iterable[tuple[str, str]], *, is_new: bool) -> dict[str, str]:
    """Return the options of a database in their canonical form."""
    given = list(options)
    for key, value in given:
        if key == "ttl" and value.strip().lower() == "instant":
            kind: type[TsdbError] = UnexpectedOption if is_new else InvalidOption
            raise kind("a database cannot have ttl instant", hint="give it to a table")
    checked = _checked(given, _SHARED, "database")
    if checked.get("append_mode") == "true" and checked.get("merge_mode"):
        raise InvalidOption("append_mode true and merge_mode exclude each other")
    return _complete(checked)


def check_altered_options(options: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """Return what ALTER TABLE … SET says, in canonical form; None takes an option back."""
    checked: dict[str, str | None] = {}
    for key, value in options:
        if key not in ALTERABLE and not key.startswith(("tsdb.semantic.", "greptime.semantic.")):
            raise InvalidOption(f"Invalid set table option request: key {key}, value {value}")
        if key == "ttl":
            value = value or "forever"
        if value is None or value == "":
            if key != "auto_flush_interval" and not key.startswith("compaction."):
                raise InvalidOption(f"Invalid set table option request: {key} needs a value")
            checked[key] = None
            continue
        checked.update(_checked([(key, value)], _TABLE, "table"))
    return checked
