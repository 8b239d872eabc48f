"""The row-touching kernels, written in Rust; the source of each, in `kernels/src`, opens with its definition.

Every function takes Arrow arrays (objects with `__arrow_c_array__`, such as `pyarrow.Array`), releases the
interpreter lock while it works, and returns `ArrowArray`: `pyarrow.array(result, type)` reads it without a
copy (numpy does not read it). The encoders take a record batch and return text. Input that cannot be processed raises
one of the exceptions below; an argument that breaks the contract of a kernel raises a plain `TypeError` or
`ValueError`.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

# One stretch of numbers, of the type that is said.
Numbers = npt.NDArray[np.number[Any]]

class MalformedInput(ValueError):
    """Bytes of a client, or a stored histogram, cannot be read; the text says why."""

class MalformedLine(MalformedInput):
    """A line of the line protocol cannot be read."""

    line: int
    """From 1."""
    column: int
    """In characters, from 1."""

class LimitExceeded(ValueError):
    """There is more than the caller allows."""

    limit: int
    found: int
    """Where counting ended, past the limit."""

class UnsupportedValue(ValueError):
    """A protocol cannot express a value."""

    row: int

class UnsupportedType(TypeError):
    """A protocol cannot express values of a type."""

    column: str
    kind: str
    """Arrow's name of the type."""

class SupportsArrowArray(Protocol):
    """What Arrow's PyCapsule protocol asks of an array. Exists for type checkers only."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowArray:
    """An array made by a kernel; one of plain numbers without nulls is a buffer too."""

    @property
    def dtype(self) -> str:
        """What numpy calls the type of the values; TypeError if they are none of plain numbers."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __len__(self) -> int: ...

class LineTags:
    """The tags of the series of one measurement, for as long as somebody has this."""

    def read(self, series: SupportsArrowArray) -> list[tuple[str, ArrowArray]]:
        """Return the tags of series by their numbers (uint32): a column for each tag that one of them has."""

    def pack(self, series: SupportsArrowArray, names: Sequence[str]) -> ArrowArray:
        """Return the named tags of series as bytes (uint8), each distinct value once; see `docs/format/wal.md`."""

class LineRows:
    """The rows of one measurement of a body."""

    name: str
    source: tuple[int, int]
    """Whose numbers `series` are; one that was seen before means the same tags as before."""
    series: ArrowArray
    """The numbers of the distinct series, in order of appearance, as uint32; all below `series_bound`."""
    series_bound: int
    index: ArrowArray
    """For each row its place in `series`, as uint32."""
    times: ArrowArray
    """As int64, in nanoseconds."""
    lines: ArrowArray
    """For each row its line, from 1, as int64."""
    fields: ArrowArray
    """A struct of the fields (float64, int64, uint64, boolean, string), in order of appearance."""
    tags: LineTags
    tag_names: list[str]
    """The tags that these series have, in order of appearance."""
    columns: list[str]
    """Tags and fields in order of appearance, "" for the time behind those of the first line."""

    def __len__(self) -> int: ...

class LineParser:
    """A parser of the InfluxDB line protocol that numbers the series it sees; any thread may use it at any time."""

    keys: int
    """How many keys (measurement and tags as written) it knows."""
    nbytes: int

    def __init__(self, keys_max: int, bytes_max: int) -> None:
        """Keep so many keys, and so many bytes of them; what is over that is forgotten before the next body."""

    def parse(self, body: bytes, *, factor: int, default_time: int) -> list[LineRows]:
        """Read a body. Timestamps count `factor` nanoseconds; lines without one have `default_time`.

        Raises MalformedLine at the first line that cannot be read.
        """

    def reset(self) -> None:
        """Forget all keys."""

class SteppedTimes:
    """Times, each of which is held as how many steps it is after the first."""

    @staticmethod
    def pack(ts: SupportsArrowArray | npt.NDArray[Any]) -> SteppedTimes | None:
        """Return times (int64 or timestamps) as steps; None if that does not make them shorter."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """The bytes that are held."""

    def read(self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> ArrowArray:
        """Return the times of row ranges, one after the other (int64)."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """All times (int64)."""

Times = SupportsArrowArray | npt.NDArray[Any] | SteppedTimes

class SeriesRuns:
    """Runs of rows that are sorted by series and time, of which aggregates can be made; not for several threads."""

    def __init__(self, *, width: int = 0, origin: int = 0, runs_max: int = ...) -> None:
        """Cut runs where a bucket of `width` ticks ends; without a width time is not looked at."""

    def add(
        self,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        groups: npt.NDArray[np.int64],
        times_of_rows: Times | None = None,
        within: tuple[int, int] | None = None,
    ) -> int:
        """Take the stretches of one more chunk, of their rows those within two times, both included.

        Returns how many runs that makes; a chunk without any is forgotten. Raises LimitExceeded past `runs_max`.
        """

    def add_chunks(
        self,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        groups: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        numbers: Sequence[int],
        times_of_rows: Sequence[Times] | None = None,
        within: tuple[int, int] | None = None,
    ) -> list[int]:
        """Take what ascending stretches have of some chunks: i has the rows from `offsets[i]` to before the next one's.

        Returns how many runs each chunk makes; one without any is forgotten. Raises LimitExceeded past `runs_max`.
        """

    def cells(self) -> tuple[ArrowArray, ArrowArray]:
        """Number the cells; returns group and bucket of each (int64), ascending. There are no more chunks then."""

    def rows(self) -> ArrowArray:
        """Return how many rows each cell has (int64)."""

    @property
    def row_count(self) -> int:
        """How many rows all runs have."""

    def aggregate(
        self,
        columns: Sequence[Sequence[SupportsArrowArray | npt.NDArray[Any]]],
        states: Sequence[Sequence[str]],
        *,
        doubles: Sequence[bool] | None = None,
        threads: int = 1,
    ) -> list[list[ArrowArray | None]]:
        """Return the states of columns, which have an array for each chunk; `spread` is two of them.

        Chunks are of one type; of signed integers the widest is the column's. Where `doubles` says so, they are of
        doubles or of signed integers, and the states are those of doubles.
        A count is None if no value is null: then it is how many rows a cell has.
        """

    def end_values(self, columns: Sequence[Sequence[SupportsArrowArray]], *, newest: bool) -> list[ArrowArray]:
        """Return what columns, with an array for each chunk, have in the newest row of each cell, or in its oldest."""

    def ends(self, *, newest: bool) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
        """Return for each cell chunk (uint32), row (uint32) and time (int64) of its newest row, or of its oldest."""

def pick_stretches(
    chosen: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    time_min: npt.NDArray[np.int64],
    time_max: npt.NDArray[np.int64],
    first: int,
    last: int,
) -> tuple[ArrowArray, tuple[int, int] | None]:
    """Return what is left of chosen series whose times lie from `first` to `last`, or around: five rows of int64.

    They are series, starts, stops, first and last times. Then come the earliest and the latest time of all.
    """

def passing_rows(
    mask: SupportsArrowArray, first: int, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[ArrowArray, ArrowArray]:
    """Return the rows of ascending stretches for which a mask is true, and which stretch each is of (int64).

    The mask begins at row `first` and reaches to the last stop; where it is null, a row does not pass.
    """

def touched_chunks(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
) -> tuple[list[int], int]:
    """Return the numbers of the chunks that rows of ascending stretches lie in, and how many rows that are.

    `offsets` is as for `add_chunks`.
    """

def contested_spans(
    parts: Sequence[
        tuple[
            npt.NDArray[np.uint64],
            npt.NDArray[np.uint64],
            npt.NDArray[np.int64],
            npt.NDArray[np.int64],
            int,
            int,
        ]
    ],
) -> tuple[tuple[ArrowArray, ArrowArray, ArrowArray], int, list[ArrowArray]] | None:
    """Return where two or more parts may have rows of one series at the same time (all int64); None if nowhere.

    A part is both hashes of its series, the earliest and the latest time of each, and the first and the last time that
    count. The answer is the first and the last time of each contested span and the number of its series, how many
    series there are, and the numbers of the series of each part, nothing if all have the same ones.
    """

def common_keys(
    parts: Sequence[
        tuple[
            npt.NDArray[np.int64],
            npt.NDArray[np.int64],
            npt.NDArray[np.int64],
            npt.NDArray[np.int64],
            Sequence[int],
            Sequence[Times],
        ]
    ],
    keys_max: int,
) -> list[ArrowArray] | None:
    """Return of each pair of rows with one series and time both, and then of either part, row, and the times before and
    after it (all int64), the least and the greatest number where there is none; None beyond `keys_max`.

    A part is series, starts, stops, offsets, numbers and times: of each series the rows `starts` to `stops`, in
    the order of time, and the times of chunks; `offsets` and `numbers` are as for `add_chunks`.
    """

def cut_rows(
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    time_min: npt.NDArray[np.int64],
    time_max: npt.NDArray[np.int64],
    left_out: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]],
    sets_max: int,
) -> list[tuple[ArrowArray, ArrowArray, ArrowArray, ArrowArray, ArrowArray]] | None:
    """Return ascending row ranges without some rows, given with the times before and after each.

    The first pieces of all ranges are one set, the second ones another: places of the ranges, starts, stops, first and
    last times (all int64). None if there would be more than `sets_max`.
    """

def row_hash(
    columns: Sequence[SupportsArrowArray],
    names: Sequence[str],
    seed: int = 0,
    rows: int | None = None,
) -> ArrowArray:
    """Return the series id of every row over its tag columns, as uint64.

    The id depends on the names and the non-null values, not on the order, the encoding or the integer width
    of the columns. `rows` is needed when there are no columns.
    """

def group_series(tsid: SupportsArrowArray, check: SupportsArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Return the first row of each distinct pair of hashes, in order of appearance, and each row's pair; as uint32."""

def sort_keys(
    series: SupportsArrowArray, ts: SupportsArrowArray, sequence: SupportsArrowArray | None = None
) -> ArrowArray:
    """Return the row numbers in the order of (series, ts, sequence), as uint32; equal rows keep their order.

    `series` is uint32 or uint64, `ts` int64 or a timestamp, `sequence` uint64, all without nulls.
    """

def merge_sorted(
    places: Sequence[Numbers],
    lengths: Sequence[Numbers],
    times: Sequence[Numbers],
    sequences: Sequence[Numbers],
    ops: Sequence[Numbers | None],
    *,
    dedup: bool,
    keep_tombstones: bool,
) -> tuple[ArrowArray, ArrowArray, ArrowArray, ArrowArray]:
    """Merge sources that are in order: return row numbers, source behind source, ranks (uint32), times and sequences.

    The next `lengths[s][i]` rows of source s are of the series of rank `places[s][i]` (int64, ascending). `times` are
    int64, `sequences` uint64, `ops` uint8, None for a source of puts alone. With `dedup` the newest row of each rank
    and time remains, a delete only with `keep_tombstones`.
    """

class SortedPieces:
    """Rows in order; series are those that have rows."""

    order: ArrowArray
    """The numbers of the rows, piece behind piece, as uint32."""
    times: ArrowArray
    sequences: ArrowArray
    series: ArrowArray
    """Their ranks, as int64."""
    offsets: ArrowArray
    """Where the rows of each series begin, and where the last one's end, as int64."""
    time_min: ArrowArray
    time_max: ArrowArray
    bounds: tuple[int, int, int, int]
    """The least and the greatest time, the least and the greatest sequence."""
    is_unique: bool

def sort_pieces(
    places: SupportsArrowArray,
    counts: Sequence[int],
    index: Sequence[Numbers],
    times: Sequence[Numbers],
    sequences: Sequence[Numbers | int],
    *,
    series: int,
    drop_overwritten: bool,
) -> SortedPieces:
    """Sort the rows of pieces by (rank, time, sequence); ranks are below `series`.

    Piece i has `counts[i]` series, whose ranks (uint32) stand in `places` behind those of the pieces before it, and
    rows: `index` (uint32) says which of its series they are of, `times` are int64, `sequences` uint64 or the first of
    them. With `drop_overwritten` only the last row of each rank and time remains.
    """

class SeriesRanks:
    """Where series are in an order, by their hashes; for any number of threads."""

    def __init__(self, tsid: Numbers, check: Numbers) -> None:
        """Take the hashes (uint64) of distinct series in their order."""

    def __len__(self) -> int: ...
    def find(self, tsid: Sequence[Numbers], check: Sequence[Numbers]) -> ArrowArray | None:
        """Return the ranks of sets of series, one behind the other, as uint32; None if one of them is not there."""

class SeriesNumbers:
    """Numbers for series in the order in which they come; one thread adds, any number of threads read."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """What it takes in memory."""

    def number(self, tsid: Numbers, check: Numbers) -> tuple[ArrowArray, ArrowArray]:
        """Return the numbers (uint32) of series, and the places (uint32) of those that are new and got the next."""

    def hashes(self, numbers: Numbers) -> tuple[ArrowArray, ArrowArray]:
        """Return `tsid` and `check` of some numbers (uint32). Raises IndexError if there is no such number."""

def interleave_runs(
    chunks: Sequence[object], places: Sequence[object], counts: Sequence[object], offsets: object
) -> ArrowArray:
    """Lay columns out series by series: chunk c has `counts[c][i]` rows of the series at `places[c][i]` (int64).

    The rows of the series at place p are then `offsets[p]` to before `offsets[p + 1]`, those of earlier chunks first.
    """

def merge_dedup(
    series: SupportsArrowArray,
    ts: SupportsArrowArray,
    op: SupportsArrowArray | None,
    order: SupportsArrowArray,
    *,
    mode: Literal["append", "last_row", "last_non_null"],
    keep_tombstones: bool = False,
    valid: Sequence[SupportsArrowArray | None] = (),
) -> tuple[ArrowArray, list[ArrowArray] | None]:
    """Return the rows that remain when rows with the same series and ts become one, as uint32, in order.

    `order` (uint32) lists rows by (series, ts, sequence), see `sort_keys`. `op` (uint8) is 0 for a put, 1 for a
    delete; None means puts only. `valid` has for each field a boolean array that is false where the field is
    null, or None for a field without nulls. Only mode `last_non_null` looks at it, and only there the second
    result is not None: for each field the row that its value comes from, as int32, null where there is none (the
    null slots hold -1).

    Tombstones vanish with what they hide; `keep_tombstones` keeps them, for a merge that does not see the oldest
    rows. In mode `last_non_null` a key may then have two rows: its last delete, and the values put after it.
    """

def run_boundaries(series: SupportsArrowArray, ts: SupportsArrowArray) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return for each run of equal series its first row (uint32), its least and its greatest time (int64)."""

def decode_parquet_chunk(
    chunk: bytes, *, is_compressed: bool, word_bytes: int, nullable: bool, rows_max: int, narrow: bool = False
) -> ArrowArray:
    """Return the values of a column chunk of Parquet, as it is or compressed with zstd, as int32 or int64.

    With `narrow`, integers of 64 bits come in the narrowest type that holds all of them.

    Raises ValueError if the chunk is damaged, NotImplementedError if it has something that is not read here.
    """

def pack_columns(
    columns: Sequence[tuple[str, SupportsArrowArray, bool, str | None]], *, offset: int, level: int
) -> tuple[bytes, list[bytes], int, list[bool]]:
    """Return columns as Parquet has them, compressed with zstd; the first begins at an offset of the file.

    Of each column: its name; its values, integers of 32 or 64 bits or dictionaries of texts; whether they may be null;
    and for integers whether they are packed as `codes` of a dictionary, or as steps between them, `tight` or `aligned`
    (along bytes), None for the smaller of both. Returned with the pages: what the footer says of each column, the bytes
    before compression, and of each column whether its steps lie along bytes.

    Raises TypeError for values of other types, ValueError for a null where there may be none.
    """

def adopt_columns(footer: bytes, shift: int) -> tuple[list[bytes], int]:
    """Return what the footer of a file with one row group says of its columns, moved `shift` bytes further on.

    And the bytes of all pages before compression. Raises ValueError if the footer is damaged.
    """

def describe_row_group(
    columns: Sequence[bytes], *, rows: int, plain_bytes: int, packed_bytes: int, offset: int, ordinal: int
) -> bytes:
    """Return what the footer says of a row group."""

def describe_file(empty: bytes, rows: int, row_groups: Sequence[bytes], key_values: Sequence[tuple[str, str]]) -> bytes:
    """Return the footer of a file: that of an empty one, with rows, row groups and more key-value metadata."""

def time_slices(
    offsets: SupportsArrowArray, ts: SupportsArrowArray, first: int, last: int
) -> tuple[ArrowArray, ArrowArray]:
    """Return the part of each stretch of rows that lies in a range of time: where it starts and stops, as int64.

    Stretch i is the rows `offsets[i]` to `offsets[i + 1]` (int64), whose times ascend; `first` and `last` are both
    included.
    """

def take_rows(
    columns: Sequence[Sequence[Times]], places: Sequence[SupportsArrowArray], kinds: Sequence[RowsKind]
) -> list[ArrowArray]:
    """Return some rows of columns of numbers, each of which has one array per piece, laid end to end.

    `places` tells for each piece which of its rows are taken (int64). A column of kind `int64` may have integers of any
    width and times, one of kind `float64` doubles and integers of any width. Others keep the one type that their pieces
    have, times as int64.
    """

RowsKind = Literal["own", "int64", "float64"]

def repeat_strings(
    values: SupportsArrowArray, ranks: SupportsArrowArray, lengths: SupportsArrowArray
) -> tuple[ArrowArray, ArrowArray]:
    """Return the offsets (int32) and the bytes (uint8) of a string array that comes in runs of equal values.

    Run i is `values[ranks[i]]` in `lengths[i]` rows; both are int64. A null takes no bytes.
    """

class TextFilters:
    """Filters of what texts are made of, one for every so many rows."""

    def __init__(self, granularity: int, rate: float, gram: int, folds_case: bool, bytes_max: int) -> None:
        """`rate` is how often a filter may be wrong; of characters beyond ASCII, `gram` are one piece.

        Filters beyond `bytes_max` in all, and those of rows with too many words, rule nothing out: their count is 0.
        """

    def add(self, texts: SupportsArrowArray) -> None:
        """Add texts (strings, perhaps null) in the order of rows."""

    def finish(self) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
        """Return of each filter how many bits a hash sets (uint8), its bits and its bitmap of pieces (both binary).

        A bitmap may be null: then pieces are among the bits. Begins anew.
        """

def text_needs(
    text: str, starts_word: bool, ends_word: bool, gram: int, folds_case: bool
) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return what filters of texts that hold `text` have: hashes (uint64), pieces (uint32) and their hashes (uint64).

    `starts_word` and `ends_word` say that no letter or digit of ASCII stands before or after it.
    """

def encode_mysql_rows(
    batch: SupportsArrowArray,
    sequence: int,
    *,
    is_binary: bool = False,
    start: int = 0,
    bytes_max: int = ...,
) -> tuple[bytes, int, int]:
    """Return rows from `start` on as packets of MySQL, the row to go on with, and the number of the next packet.

    Stops behind the row that brings the packets to `bytes_max`; writes at least one row if there is one. Timestamps are
    written as they are, without a zone. Raises UnsupportedValue for a year that has not four digits.
    """

def encode_json_rows(
    batch: SupportsArrowArray,
    *,
    start: int = 0,
    bytes_max: int = ...,
    epoch: Literal["s", "ms", "us", "ns"] | None = None,
    continues: bool = False,
) -> tuple[bytes, int]:
    """Return rows from `start` on as JSON arrays with commas between them, and the row to go on with.

    Stops behind the row that brings the text to `bytes_max`; writes at least one row if there is one. Timestamps are
    integers in their column's unit, or in `epoch`, rounded down. With `continues` the text begins with a comma.
    """

def encode_json_objects(
    batch: SupportsArrowArray, *, start: int = 0, bytes_max: int = ..., continues: bool = False
) -> tuple[bytes, int]:
    """As `encode_json_rows`, each row an object of column names and values."""

def encode_json_lines(batch: SupportsArrowArray, *, start: int = 0, bytes_max: int = ...) -> tuple[bytes, int]:
    """As `encode_json_objects`, with a line feed behind each row and no commas."""

def encode_csv_rows(batch: SupportsArrowArray, *, start: int = 0, bytes_max: int = ...) -> tuple[bytes, int]:
    """As `encode_json_rows`, each row a line of CSV that ends with CR LF; a null is an empty field."""

def encode_table_rows(
    batch: SupportsArrowArray, widths: Sequence[int], *, start: int = 0, bytes_max: int = ...
) -> tuple[bytes, int]:
    """As `encode_json_rows`, each row a line `│ 1 │ "a" │` with the cells filled up to the given widths."""

def measure_table_cells(batch: SupportsArrowArray) -> list[int]:
    """Return the number of characters of the widest cell of each column, as `encode_table_rows` writes it."""

def encode_postgres_rows(
    batch: SupportsArrowArray,
    *,
    binary: Sequence[bool],
    style: str,
    is_copy: bool = False,
    start: int = 0,
    bytes_max: int = ...,
) -> tuple[bytes, int]:
    """Return rows from `start` on as DataRow messages of PostgreSQL, and the row to go on with.

    `binary` says of each column whether its cells are binary. `style` is what a session chose for text, such as
    `iso,mdy,postgres,hex`: dates, their order, intervals, bytes. With `is_copy` the messages are CopyData.
    """

def encode_postgres_copy(
    batch: SupportsArrowArray,
    *,
    style: str,
    delimiter: int,
    null: bytes,
    quote: int | None = None,
    escape: int = 34,
    forced: Sequence[bool] = (),
    start: int = 0,
    bytes_max: int = ...,
) -> tuple[bytes, int]:
    """As `encode_postgres_rows`, each row a line of COPY: CSV with a `quote`, else PostgreSQL's text form.

    `forced` says of each column whether its values are always in quotes.
    """

def parse_postgres_copy(body: bytes, columns: int) -> tuple[list[ArrowArray], int, int, bool, str | None]:
    """Read rows of PostgreSQL's binary COPY, as far as they have come whole.

    Return the columns as arrays of bytes, the number of rows, the place behind them, whether the mark of the end came,
    and what is wrong with the row at that place, if anything is.
    """

class RemoteWriteBatch:
    """A request of Prometheus remote write as columns."""

    @property
    def generation(self) -> int:
        """Of the numbers in `series`: they are others in another generation."""
    @property
    def series(self) -> ArrowArray:
        """The numbers (uint32) of the distinct series, in order of appearance."""
    @property
    def index(self) -> ArrowArray:
        """For each sample the position of its series in `series`, as uint32."""
    @property
    def times(self) -> ArrowArray:
        """In milliseconds, as int64."""
    @property
    def values(self) -> ArrowArray:
        """With the bits that were sent, as float64."""
    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return `series`, `index`, `times` and `values` as the bytes of their values."""
    @property
    def places(self) -> ArrowArray:
        """For each sample which of the request's series it is of, from 0, as int64."""
    @property
    def histogram_index(self) -> ArrowArray:
        """For each native histogram the position of its series in `series`, as uint32."""
    @property
    def histogram_times(self) -> ArrowArray: ...
    @property
    def histogram_places(self) -> ArrowArray: ...
    @property
    def histograms(self) -> ArrowArray:
        """Native histograms in their canonical form, as binary."""
    @property
    def metadata(self) -> list[tuple[str, int, str, str]]:
        """What the request tells about metrics: name, number of the type, help, unit."""
    def describe(
        self, positions: SupportsArrowArray | None = None
    ) -> tuple[ArrowArray, ArrowArray, ArrowArray, ArrowArray]:
        """Return metrics, databases, physical tables and encoded labels of the series at positions (int64).

        Databases and physical tables are null where no label chooses one.
        """
    def label_pairs(self, positions: SupportsArrowArray) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
        """Return the labels of the series at positions: which of the positions (uint32), name, value."""

class RemoteWriteParser:
    """Reads messages of Prometheus remote write; numbers the series it meets. For any number of threads.

    It forgets all series and begins another generation when it knows `series_max` of them or they take `bytes_max`.
    """

    def __init__(self, *, is_strict: bool, series_max: int, bytes_max: int) -> None: ...
    def read(self, bodies: list[bytes], *, bytes_max: int) -> RemoteWriteBatch | None:
        """Read messages of version 1, each a snappy block, as one.

        None if that cannot be done: a block is none, or they unpack to more than `bytes_max`, or one is malformed.
        """
    def parse(self, body: bytes, *, version: int) -> RemoteWriteBatch:
        """Read a message of version 1 or 2; MalformedInput names the series that cannot be read."""
    def size(self) -> tuple[int, int]:
        """Return how many names of series are kept, and about how many bytes they take."""

def encode_read_result(
    metric: str,
    labels: SupportsArrowArray,
    offsets: SupportsArrowArray,
    times: SupportsArrowArray,
    values: SupportsArrowArray,
    histograms: SupportsArrowArray | None = None,
) -> bytes:
    """Return a `QueryResult` of Prometheus remote read.

    Series i has the encoded labels `labels[i]` and the rows `offsets[i]` to `offsets[i + 1]` (int64) of `times` (int64)
    and `values` (float64). A row whose element of `histograms` (binary) is not null is that native histogram;
    MalformedInput if it is none.
    """

class Histograms:
    """Many native histograms, found by number, that never change.

    Cells are numbers of histograms (int32), -1 where there is none. What is computed goes into a new pool. Methods that
    say so want a histogram in each cell; `scale` and `trim` put the results into the new pool in their order.
    """

    @staticmethod
    def decode(array: SupportsArrowArray) -> tuple[Histograms, ArrowArray]:
        """Read histograms in their stored form (binary) and return the cells; null has none."""

    @staticmethod
    def concat(pools: Sequence[Histograms]) -> Histograms:
        """Put pools one behind the other."""

    def __len__(self) -> int: ...
    @property
    def width(self) -> int:
        """The number of buckets of the largest."""

    def encode(self, cells: SupportsArrowArray) -> ArrowArray:
        """Return the stored form of cells, null for -1."""

    def statistic(self, name: str, cells: SupportsArrowArray) -> ArrowArray:
        """Return count, sum, avg, stddev or stdvar of cells; NaN for -1."""

    def quantile(self, cells: SupportsArrowArray, quantiles: SupportsArrowArray) -> tuple[ArrowArray, ArrowArray]:
        """Return a quantile of each cell, and flags (uint8) where NaN was observed. Wants histograms.

        Flags: 1 where the result is NaN because of that, 2 where it is too high.
        """

    def fraction(
        self, cells: SupportsArrowArray, lower: SupportsArrowArray, upper: SupportsArrowArray
    ) -> tuple[ArrowArray, ArrowArray]:
        """Return the shares of observations between two values, and flags (uint8): 2 where NaN was observed. Wants
        histograms."""

    def scale(self, cells: SupportsArrowArray, factors: SupportsArrowArray, is_division: bool) -> Histograms:
        """Multiply each cell by a factor, or divide it. Wants histograms."""

    def trim(self, cells: SupportsArrowArray, at: SupportsArrowArray, keeps_below: bool) -> Histograms:
        """Keep the observations below a value, or those above. Wants histograms."""

    def combine(
        self, cells: SupportsArrowArray, other: Histograms, other_cells: SupportsArrowArray, is_subtraction: bool
    ) -> tuple[Histograms, ArrowArray, ArrowArray]:
        """Add cells of another pool, or subtract them; return the new cells and flags (uint8). Wants histograms.

        Flags: 1 for hints of counter resets that contradict each other, 2 for custom bounds that differ, 4 for an
        exponential and a custom histogram, which have no result.
        """

    def equal(self, cells: SupportsArrowArray, other: Histograms, other_cells: SupportsArrowArray) -> ArrowArray:
        """Tell for each pair of cells (uint8) whether both are the same. Wants histograms."""

    def interpolate(
        self, cells: SupportsArrowArray, other_cells: SupportsArrowArray, shares: SupportsArrowArray
    ) -> tuple[Histograms, ArrowArray, ArrowArray]:
        """Return the histograms at shares of the way from cells to others. Wants histograms.

        Behind a counter reset they grow from nothing. Returns the new cells, -1 between an exponential and a custom
        histogram, and flags (uint32) as `range`.
        """

    def aggregate(
        self, op: str, cells: SupportsArrowArray, groups: SupportsArrowArray, count: int, columns: int
    ) -> tuple[Histograms, ArrowArray, ArrowArray, ArrowArray]:
        """Combine the rows of a matrix of cells by group, sum or avg.

        Returns for each group and column the new cell, flags (uint32) as `range`, and the row (int32) at which an
        exponential and a custom histogram met, -1 without such.
        """

    def watched(self, offsets: SupportsArrowArray, cells: SupportsArrowArray) -> tuple[Histograms, ArrowArray]:
        """Let each sample learn from the one before it in its series whether the counter was reset."""

    def forgetful(self) -> Histograms:
        """Return the same histograms without what they know of counter resets before them."""

    def texts(self, cells: SupportsArrowArray) -> list[str | None]:
        """Return cells as `{count:4, sum:5, (1,2]:4}`, None for -1."""

    def range(
        self,
        function: str,
        offsets: SupportsArrowArray,
        times: SupportsArrowArray,
        values: SupportsArrowArray,
        cells: SupportsArrowArray,
        ends: SupportsArrowArray,
        ats: SupportsArrowArray,
        range_ms: int,
        first: SupportsArrowArray,
        second: SupportsArrowArray,
        extension: str = "",
        lookback_ms: int = 0,
    ) -> tuple[Histograms, ArrowArray, ArrowArray, ArrowArray, ArrowArray]:
        """Evaluate a function as `prom_range` over samples of which some are histograms.

        Returns the pool of results, the matrices of values, presence and cells, and for each series flags (uint32): 1
        floats and histograms mixed, 2 exponential and custom ones mixed, 4 gauges where counters are wanted, 8 counters
        where gauges are wanted, custom bounds reconciled 16 in a subtraction, 32 in an addition, 64 in an aggregation,
        128 hints of resets that contradict each other, 256 histograms left out beside floats.
        """

def prom_range(
    function: str,
    offsets: SupportsArrowArray,
    times: SupportsArrowArray,
    values: SupportsArrowArray,
    ends: SupportsArrowArray,
    ats: SupportsArrowArray,
    range_ms: int,
    first: SupportsArrowArray,
    second: SupportsArrowArray,
    extension: str = "",
    lookback_ms: int = 0,
) -> tuple[ArrowArray, ArrowArray]:
    """Return a PromQL function over the window `(end - range, end]` of each series and step, and where there is one.

    Series i has the samples `offsets[i]` to `offsets[i + 1]`, in the order of time. Steps ascend: `ends` are the ends
    of the windows, `ats` the times of the steps. `first` and `second` are the scalar arguments of each step.
    `extension` is empty, `anchored` or `smoothed`. Matrices are float64 and uint8, row after row.
    """

def prom_instant(
    offsets: SupportsArrowArray,
    times: SupportsArrowArray,
    values: SupportsArrowArray,
    ats: SupportsArrowArray,
    lookback_ms: int,
) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return the last sample in `(at - lookback, at]` of each series and step, its time, and where there is one."""

def prom_aggregate(
    op: str,
    values: SupportsArrowArray,
    present: SupportsArrowArray,
    groups: SupportsArrowArray,
    count: int,
    param: SupportsArrowArray,
) -> tuple[ArrowArray, ArrowArray]:
    """Return the rows of a matrix combined by group: sum, avg, min, max, count, group, stddev, stdvar or quantile."""

def prom_buckets(
    function: Literal["quantile", "fraction"],
    values: SupportsArrowArray,
    present: SupportsArrowArray,
    groups: SupportsArrowArray,
    bounds: SupportsArrowArray,
    count: int,
    first: SupportsArrowArray,
    second: SupportsArrowArray,
) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
    """Return quantiles or fractions of classic histograms, where there are such, and where counts had to be raised."""

class SeriesStretches:
    """Which series a sorted source has, by number, and where."""

    def __init__(
        self,
        numbers: SupportsArrowArray,
        offsets: SupportsArrowArray,
        time_min: SupportsArrowArray,
        time_max: SupportsArrowArray,
    ) -> None:
        """The rows of the series `numbers[i]` (uint32) are `offsets[i]` to `offsets[i + 1]`, the rest is int64."""

    def __len__(self) -> int: ...
    def pieces(self, chosen: SupportsArrowArray, first: int, last: int, begins: SupportsArrowArray) -> list[int]:
        """Return which pieces have rows of chosen series in a range of time.

        Piece i has the rows `begins[i]` to before `begins[i + 1]`.
        """

class SamplePiece:
    """Times and values of neighbouring rows of a source."""

    def __init__(self, begin: int, times: Times, values: SupportsArrowArray | npt.NDArray[Any]) -> None:
        """The first row is row `begin` of the source. Doubles that are all whole may come as integers of any width."""

    def __len__(self) -> int: ...

class Samples:
    """The samples of series, left where they lie."""

    @staticmethod
    def find(
        parts: Sequence[tuple[SeriesStretches, SamplePiece]],
        chosen: SupportsArrowArray,
        first: int,
        last: int,
        samples_max: int,
        *,
        last_wins: bool = False,
    ) -> Samples | None:
        """Find the rows from `first` to `last` of chosen series (uint32), in this order, of those that have some.

        Of rows of one series and time that of the last part remains with `last_wins`; without it, None if there are
        any. LimitExceeded, with `found`, if there are too many.
        """

    def __len__(self) -> int: ...
    @property
    def series(self) -> int:
        """How many series have samples."""

    @property
    def places(self) -> ArrowArray:
        """For each series its place among the chosen ones, as uint32."""

    def columns(self) -> tuple[ArrowArray, ArrowArray, ArrowArray]:
        """Return offsets, times and values, series after series."""

    def instant(
        self, ats: SupportsArrowArray, lookback_ms: int, has_times: bool
    ) -> tuple[ArrowArray, ArrowArray | None, ArrowArray]:
        """Like `prom_instant`; the times of samples come if they are asked for."""

    def range(
        self,
        function: str,
        ends: SupportsArrowArray,
        ats: SupportsArrowArray,
        range_ms: int,
        first: SupportsArrowArray,
        second: SupportsArrowArray,
        extension: str = "",
        lookback_ms: int = 0,
    ) -> tuple[ArrowArray, ArrowArray]:
        """Like `prom_range`; stale samples are left out."""

def prom_first(
    op: str,
    values: SupportsArrowArray,
    present: SupportsArrowArray,
    groups: SupportsArrowArray,
    count: int,
    limits: SupportsArrowArray,
) -> ArrowArray:
    """Return which cells are among the first `limits[step]` (int64) of their group and step, as uint8.

    `topk` takes the largest first, `bottomk` the smallest, `limitk` any; NaN comes last, of equals the later row.
    """

def prom_labels(
    names: Sequence[str], values: Sequence[SupportsArrowArray], codes: Sequence[SupportsArrowArray], rows: int
) -> ArrowArray:
    """Return the labels of each series as a JSON object: of series j, label i is `values[i][codes[i][j]]`.

    Codes are int64; 0 stands for a label that a series does not have.
    """

def prom_json(
    metrics: SupportsArrowArray,
    values: SupportsArrowArray,
    present: SupportsArrowArray,
    times: SupportsArrowArray,
    is_instant: bool,
    pool: Histograms | None = None,
    cells: SupportsArrowArray | None = None,
    *,
    head: bytes | None = None,
    tail: bytes | None = None,
) -> bytes:
    """Return a matrix as Prometheus' JSON, between `head` and `tail`; `metrics` has the JSON of the labels.

    Cells (int32) that are not -1 are histograms of the pool.
    """

def parse_greptime_rows(body: bytes) -> list[tuple[str, list[bytes], list[ArrowArray], int]]:
    """Return for each table of a `RowInsertRequests` its name, schemas, columns and number of rows.

    Whole numbers and times come as int64 or uint64, decimals as 16 bytes. MalformedInput says what is wrong, and where.
    """

def count_otlp_messages(body: bytes, signal: str, limit: int) -> int:
    """Count the messages of an export request of `metrics`, `traces` or `logs`, up to one more than `limit`."""

def parse_form(encoded: bytes, pairs_max: int) -> list[tuple[str, str]]:
    """Return the pairs of `a=1&b=%C3%BC`; LimitExceeded past `pairs_max`, MalformedInput if it is not UTF-8."""

def parse_http_head(
    data: bytes,
) -> tuple[int, str, str, bytes, list[tuple[bytes, bytes]], int | None, bool, bool, bool] | None:
    """Return the head of a request that bytes begin with; None if it is not complete.

    Size in bytes, method, decoded path, query, headers with names in lower case, length of the body (None for chunks),
    whether the connection may be used again, whether the client understands chunks, whether it waits to be asked for
    the body. MalformedInput if it is no head, LimitExceeded for too many headers.
    """

class ChunkedBody:
    """A body that comes in chunks."""

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """Take received bytes: the body in them, and how many bytes were taken; MalformedInput if it is no chunks."""
    @property
    def is_done(self) -> bool: ...

def find_known(
    numbers: npt.NDArray[Any],
    region_of: npt.NDArray[Any],
    place_of: npt.NDArray[Any],
    table_of: npt.NDArray[Any],
    is_checked: npt.NDArray[Any],
) -> tuple[int, bytes] | None:
    """Look up series (uint32) in columns by their numbers: regions (int32), places (uint32), tables (int32).

    Return their region and the bytes of their places if all of them have the same region, not a negative one, and a
    table that `is_checked` (uint8); otherwise None.
    """

def seal_payload(parts: list[memoryview], *, compress_from: int) -> tuple[bytes, int, bool, int]:
    """Join parts, compress them (an LZ4 block) if there are `compress_from` bytes and it pays, and sum up the result.

    Return what is to be stored, its CRC-32C, whether it is compressed, and the length of the parts.
    """

class MetricSeries:
    """Series of the region of a physical table, by their places, which count from 0. For any number of threads.

    Places are given as the bytes of numbers (uint32).
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(
        self,
        tsid: SupportsArrowArray,
        check: SupportsArrowArray,
        owner: SupportsArrowArray,
        text_of: SupportsArrowArray,
        texts: SupportsArrowArray,
    ) -> int:
        """Add series: hashes (uint64), ids of tables (uint32), labels as numbers (int32) of `texts`.

        Return the place of the first.
        """
    def hashes(self, places: bytes) -> tuple[bytes, bytes]:
        """Return both hashes of series, as the bytes of numbers (uint64)."""
    def seal(
        self,
        places: bytes,
        headers: tuple[bytes, bytes],
        fields: memoryview,
        fields_form: int,
        times: memoryview,
        index: memoryview,
        *,
        compress_from: int,
    ) -> tuple[bytes, int, bool, int]:
        """Return the payload of a log entry, with the tags packed, as `seal_payload` does.

        `headers` are the schemas of the tags and of the fields; times and fields are the bytes of the rows' columns,
        `index` those of the positions (uint32) of their series in `places`.
        """
    def tags(self, places: bytes) -> tuple[ArrowArray, ArrowArray]:
        """Return the ids of tables (uint32) and the labels (string) of series."""
