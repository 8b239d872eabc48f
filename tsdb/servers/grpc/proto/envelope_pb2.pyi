from tsdb.servers.grpc.proto import greptime_pb2 as _greptime_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("header", "inserts", "query", "ddl", "deletes", "row_inserts", "row_deletes")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INSERTS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DDL_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    ROW_INSERTS_FIELD_NUMBER: _ClassVar[int]
    ROW_DELETES_FIELD_NUMBER: _ClassVar[int]
    header: _greptime_pb2.RequestHeader
    inserts: bytes
    query: bytes
    ddl: bytes
    deletes: bytes
    row_inserts: bytes
    row_deletes: bytes
    def __init__(self, header: _Optional[_Union[_greptime_pb2.RequestHeader, _Mapping]] = ..., inserts: _Optional[bytes] = ..., query: _Optional[bytes] = ..., ddl: _Optional[bytes] = ..., deletes: _Optional[bytes] = ..., row_inserts: _Optional[bytes] = ..., row_deletes: _Optional[bytes] = ...) -> None: ...
