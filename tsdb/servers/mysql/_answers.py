"""Answers to a command: OK, errors, ends of lists, the columns and rows of results.

A `PacketEncoder` numbers the packets of one command. A kernel encodes rows, some megabytes at a time; the caller
decides when the next ones are encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as pt

from tsdb._kernels import UnsupportedType, UnsupportedValue, encode_mysql_rows
from tsdb.errors import InvalidArguments, TsdbError, UnknownProcess, Unsupported, wire_of
from tsdb.model import local_times
from tsdb.query import Records, Session
from tsdb.servers.mysql._columns import encode_column
from tsdb.servers.mysql._protocol import (
    Capability,
    StatusFlag,
    WireError,
    count_pieces,
    encode_length,
    encode_packet,
)

CHUNK_BYTES = 1 << 20
"""About how many bytes of rows are made before they are sent."""
MESSAGE_CHARS_MAX = 4096
_OFF = frozenset({"0", "off", "false"})
_UNKNOWN_THREAD = 1094
_COUNT_MAX = 0xFFFF


class PacketEncoder:
    """Makes the packets that answer one command."""

    def __init__(self, session: Session, capabilities: Capability, sequence: int) -> None:
        self._session = session
        self._has_eof = not capabilities & Capability.DEPRECATE_EOF
        self._sequence = sequence
        self.has_warnings = True
        """Whether to say how many there are. The answer to SHOW WARNINGS does not: its reader would ask again."""

    def packet(self, payload: bytes) -> bytes:
        """Return a packet with the next number."""
        encoded = encode_packet(payload, self._sequence)
        self._sequence += count_pieces(len(payload))
        return encoded

    def ok(self, affected: int = 0, *, has_more: bool = False) -> bytes:
        return self.packet(ok_payload(self._session, affected, has_more=has_more))

    @property
    def _warnings(self) -> int:
        return min(len(self._session.warnings), _COUNT_MAX) if self.has_warnings else 0

    def error(self, error: TsdbError | WireError) -> bytes:
        return self.packet(error_payload(error))

    def end(self, *, has_more: bool = False) -> bytes:
        """Return the end of rows."""
        if self._has_eof:
            return self.packet(_eof_payload(self._session, self._warnings, has_more=has_more))
        return self.packet(b"\xfe" + ok_payload(self._session, 0, has_more=has_more)[1:-2] + _count(self._warnings))

    def definitions(self, fields: Iterable[pa.Field]) -> bytes:
        """Return the columns of a result, or parameters, and their end."""
        packets = [self.packet(encode_column(field, self._session.database)) for field in fields]
        if packets and self._has_eof:
            packets.append(self.packet(_eof_payload(self._session, self._warnings)))
        return b"".join(packets)

    def rows(self, records: Records, *, is_binary: bool, has_more: bool) -> Iterator[bytes]:
        """Yield a whole result, and close the records."""
        try:
            yield self.packet(encode_length(len(records.schema))) + self.definitions(records.schema)
            zone = self._session.time_zone
            for batch in records:
                yield from self._batch(batch, zone, is_binary)
        finally:
            records.close()
        yield self.end(has_more=has_more)

    def _batch(self, batch: pa.RecordBatch, zone: str, is_binary: bool) -> Iterator[bytes]:
        local, row = localized(batch, zone), 0
        while row < local.num_rows:
            try:
                packets, row, self._sequence = encode_mysql_rows(
                    local, self._sequence & 255, is_binary=is_binary, start=row, bytes_max=CHUNK_BYTES
                )
            except UnsupportedType as error:
                raise Unsupported(str(error)) from error
            except UnsupportedValue as error:
                raise InvalidArguments(f"a time has no form in this protocol: {error}") from error
            yield packets


def ok_payload(session: Session, affected: int = 0, *, has_more: bool = False) -> bytes:
    """Return what says that a command succeeded."""
    warnings = min(len(session.warnings), _COUNT_MAX)
    flags = status_flags(session, has_more=has_more)
    return b"\x00" + encode_length(affected) + b"\x00" + flags.to_bytes(2, "little") + _count(warnings)


def _count(warnings: int) -> bytes:
    return warnings.to_bytes(2, "little")


def _eof_payload(session: Session, warnings: int, *, has_more: bool = False) -> bytes:
    return b"\xfe" + _count(warnings) + status_flags(session, has_more=has_more).to_bytes(2, "little")


def status_flags(session: Session, *, has_more: bool = False) -> int:
    """Return how the session stands. Every statement is its own transaction; the flag shows what the client has set."""
    is_off = session.variables.get("autocommit", "").lower() in _OFF
    flags = StatusFlag(0) if is_off else StatusFlag.AUTOCOMMIT
    return int(flags | StatusFlag.MORE_RESULTS if has_more else flags)


def error_payload(error: TsdbError | WireError, *, has_state: bool = True) -> bytes:
    """Return what says that a command failed; without a state to a client that has not answered yet."""
    if isinstance(error, TsdbError):
        code = wire_of(error)
        errno, state, message = code.mysql_errno, code.mysql_state, f"({error.status.title}): {error}"
        if isinstance(error, UnknownProcess):
            errno = _UNKNOWN_THREAD
    else:
        errno, state, message = error.errno, error.state, str(error)
    text = message[:MESSAGE_CHARS_MAX].encode("utf-8", "replace")
    return b"\xff" + errno.to_bytes(2, "little") + (b"#" + state.encode() if has_state else b"") + text


def localized(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """Return a batch that the kernel takes, its timestamps as the clocks of a zone show them."""
    columns = [_localized(column, zone) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _localized(column: pa.Array, zone: str) -> pa.Array:
    kind = column.type
    if pt.is_dictionary(kind):
        return _localized(column.dictionary_decode(), zone)
    if pt.is_float16(kind):
        return column.cast(pa.float32())
    if pt.is_date64(kind):
        return column.cast(pa.date32())
    if not pt.is_timestamp(kind) or zone == "UTC":
        return column
    return local_times(column, zone)
