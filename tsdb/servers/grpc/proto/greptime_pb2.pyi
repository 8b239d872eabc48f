from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SemanticType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TAG: _ClassVar[SemanticType]
    FIELD: _ClassVar[SemanticType]
    TIMESTAMP: _ClassVar[SemanticType]

class ColumnDataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOOLEAN: _ClassVar[ColumnDataType]
    INT8: _ClassVar[ColumnDataType]
    INT16: _ClassVar[ColumnDataType]
    INT32: _ClassVar[ColumnDataType]
    INT64: _ClassVar[ColumnDataType]
    UINT8: _ClassVar[ColumnDataType]
    UINT16: _ClassVar[ColumnDataType]
    UINT32: _ClassVar[ColumnDataType]
    UINT64: _ClassVar[ColumnDataType]
    FLOAT32: _ClassVar[ColumnDataType]
    FLOAT64: _ClassVar[ColumnDataType]
    BINARY: _ClassVar[ColumnDataType]
    STRING: _ClassVar[ColumnDataType]
    DATE: _ClassVar[ColumnDataType]
    DATETIME: _ClassVar[ColumnDataType]
    TIMESTAMP_SECOND: _ClassVar[ColumnDataType]
    TIMESTAMP_MILLISECOND: _ClassVar[ColumnDataType]
    TIMESTAMP_MICROSECOND: _ClassVar[ColumnDataType]
    TIMESTAMP_NANOSECOND: _ClassVar[ColumnDataType]
    TIME_SECOND: _ClassVar[ColumnDataType]
    TIME_MILLISECOND: _ClassVar[ColumnDataType]
    TIME_MICROSECOND: _ClassVar[ColumnDataType]
    TIME_NANOSECOND: _ClassVar[ColumnDataType]
    INTERVAL_YEAR_MONTH: _ClassVar[ColumnDataType]
    INTERVAL_DAY_TIME: _ClassVar[ColumnDataType]
    INTERVAL_MONTH_DAY_NANO: _ClassVar[ColumnDataType]
    DURATION_SECOND: _ClassVar[ColumnDataType]
    DURATION_MILLISECOND: _ClassVar[ColumnDataType]
    DURATION_MICROSECOND: _ClassVar[ColumnDataType]
    DURATION_NANOSECOND: _ClassVar[ColumnDataType]
    DECIMAL128: _ClassVar[ColumnDataType]
    JSON: _ClassVar[ColumnDataType]
    VECTOR: _ClassVar[ColumnDataType]
    LIST: _ClassVar[ColumnDataType]
    STRUCT: _ClassVar[ColumnDataType]
    DICTIONARY: _ClassVar[ColumnDataType]

class JsonTypeExtension(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JSON_BINARY: _ClassVar[JsonTypeExtension]
TAG: SemanticType
FIELD: SemanticType
TIMESTAMP: SemanticType
BOOLEAN: ColumnDataType
INT8: ColumnDataType
INT16: ColumnDataType
INT32: ColumnDataType
INT64: ColumnDataType
UINT8: ColumnDataType
UINT16: ColumnDataType
UINT32: ColumnDataType
UINT64: ColumnDataType
FLOAT32: ColumnDataType
FLOAT64: ColumnDataType
BINARY: ColumnDataType
STRING: ColumnDataType
DATE: ColumnDataType
DATETIME: ColumnDataType
TIMESTAMP_SECOND: ColumnDataType
TIMESTAMP_MILLISECOND: ColumnDataType
TIMESTAMP_MICROSECOND: ColumnDataType
TIMESTAMP_NANOSECOND: ColumnDataType
TIME_SECOND: ColumnDataType
TIME_MILLISECOND: ColumnDataType
TIME_MICROSECOND: ColumnDataType
TIME_NANOSECOND: ColumnDataType
INTERVAL_YEAR_MONTH: ColumnDataType
INTERVAL_DAY_TIME: ColumnDataType
INTERVAL_MONTH_DAY_NANO: ColumnDataType
DURATION_SECOND: ColumnDataType
DURATION_MILLISECOND: ColumnDataType
DURATION_MICROSECOND: ColumnDataType
DURATION_NANOSECOND: ColumnDataType
DECIMAL128: ColumnDataType
JSON: ColumnDataType
VECTOR: ColumnDataType
LIST: ColumnDataType
STRUCT: ColumnDataType
DICTIONARY: ColumnDataType
JSON_BINARY: JsonTypeExtension

class HealthCheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestHeader(_message.Message):
    __slots__ = ("catalog", "schema", "authorization", "dbname", "tracing_context", "timezone")
    class TracingContextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATION_FIELD_NUMBER: _ClassVar[int]
    DBNAME_FIELD_NUMBER: _ClassVar[int]
    TRACING_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    schema: str
    authorization: AuthHeader
    dbname: str
    tracing_context: _containers.ScalarMap[str, str]
    timezone: str
    def __init__(self, catalog: _Optional[str] = ..., schema: _Optional[str] = ..., authorization: _Optional[_Union[AuthHeader, _Mapping]] = ..., dbname: _Optional[str] = ..., tracing_context: _Optional[_Mapping[str, str]] = ..., timezone: _Optional[str] = ...) -> None: ...

class AuthHeader(_message.Message):
    __slots__ = ("basic", "token")
    BASIC_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    basic: Basic
    token: Token
    def __init__(self, basic: _Optional[_Union[Basic, _Mapping]] = ..., token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Basic(_message.Message):
    __slots__ = ("username", "password")
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    username: str
    password: str
    def __init__(self, username: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: Status
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("status_code", "err_msg")
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    ERR_MSG_FIELD_NUMBER: _ClassVar[int]
    status_code: int
    err_msg: str
    def __init__(self, status_code: _Optional[int] = ..., err_msg: _Optional[str] = ...) -> None: ...

class AffectedRows(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class FlightMetadata(_message.Message):
    __slots__ = ("affected_rows", "metrics")
    AFFECTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    affected_rows: AffectedRows
    metrics: Metrics
    def __init__(self, affected_rows: _Optional[_Union[AffectedRows, _Mapping]] = ..., metrics: _Optional[_Union[Metrics, _Mapping]] = ...) -> None: ...

class Metrics(_message.Message):
    __slots__ = ("metrics",)
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: bytes
    def __init__(self, metrics: _Optional[bytes] = ...) -> None: ...

class GreptimeRequest(_message.Message):
    __slots__ = ("header", "inserts", "query", "ddl", "deletes", "row_inserts", "row_deletes")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INSERTS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DDL_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    ROW_INSERTS_FIELD_NUMBER: _ClassVar[int]
    ROW_DELETES_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    inserts: InsertRequests
    query: QueryRequest
    ddl: DdlRequest
    deletes: DeleteRequests
    row_inserts: RowInsertRequests
    row_deletes: RowDeleteRequests
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., inserts: _Optional[_Union[InsertRequests, _Mapping]] = ..., query: _Optional[_Union[QueryRequest, _Mapping]] = ..., ddl: _Optional[_Union[DdlRequest, _Mapping]] = ..., deletes: _Optional[_Union[DeleteRequests, _Mapping]] = ..., row_inserts: _Optional[_Union[RowInsertRequests, _Mapping]] = ..., row_deletes: _Optional[_Union[RowDeleteRequests, _Mapping]] = ...) -> None: ...

class GreptimeResponse(_message.Message):
    __slots__ = ("header", "affected_rows")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    AFFECTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    affected_rows: AffectedRows
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., affected_rows: _Optional[_Union[AffectedRows, _Mapping]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("sql", "logical_plan", "prom_range_query", "insert_into_plan")
    SQL_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_PLAN_FIELD_NUMBER: _ClassVar[int]
    PROM_RANGE_QUERY_FIELD_NUMBER: _ClassVar[int]
    INSERT_INTO_PLAN_FIELD_NUMBER: _ClassVar[int]
    sql: str
    logical_plan: bytes
    prom_range_query: PromRangeQuery
    insert_into_plan: InsertIntoPlan
    def __init__(self, sql: _Optional[str] = ..., logical_plan: _Optional[bytes] = ..., prom_range_query: _Optional[_Union[PromRangeQuery, _Mapping]] = ..., insert_into_plan: _Optional[_Union[InsertIntoPlan, _Mapping]] = ...) -> None: ...

class InsertIntoPlan(_message.Message):
    __slots__ = ("table_name", "logical_plan")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_PLAN_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    logical_plan: bytes
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., logical_plan: _Optional[bytes] = ...) -> None: ...

class TableName(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "table_name")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    table_name: str
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., table_name: _Optional[str] = ...) -> None: ...

class PromInstantQuery(_message.Message):
    __slots__ = ("query", "time", "lookback")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    LOOKBACK_FIELD_NUMBER: _ClassVar[int]
    query: str
    time: str
    lookback: str
    def __init__(self, query: _Optional[str] = ..., time: _Optional[str] = ..., lookback: _Optional[str] = ...) -> None: ...

class PromRangeQuery(_message.Message):
    __slots__ = ("query", "start", "end", "step", "lookback")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    LOOKBACK_FIELD_NUMBER: _ClassVar[int]
    query: str
    start: str
    end: str
    step: str
    lookback: str
    def __init__(self, query: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., step: _Optional[str] = ..., lookback: _Optional[str] = ...) -> None: ...

class PromqlRequest(_message.Message):
    __slots__ = ("header", "instant_query", "range_query")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    INSTANT_QUERY_FIELD_NUMBER: _ClassVar[int]
    RANGE_QUERY_FIELD_NUMBER: _ClassVar[int]
    header: RequestHeader
    instant_query: PromInstantQuery
    range_query: PromRangeQuery
    def __init__(self, header: _Optional[_Union[RequestHeader, _Mapping]] = ..., instant_query: _Optional[_Union[PromInstantQuery, _Mapping]] = ..., range_query: _Optional[_Union[PromRangeQuery, _Mapping]] = ...) -> None: ...

class PromqlResponse(_message.Message):
    __slots__ = ("header", "body")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    header: ResponseHeader
    body: bytes
    def __init__(self, header: _Optional[_Union[ResponseHeader, _Mapping]] = ..., body: _Optional[bytes] = ...) -> None: ...

class RowInsertRequests(_message.Message):
    __slots__ = ("inserts",)
    INSERTS_FIELD_NUMBER: _ClassVar[int]
    inserts: _containers.RepeatedCompositeFieldContainer[RowInsertRequest]
    def __init__(self, inserts: _Optional[_Iterable[_Union[RowInsertRequest, _Mapping]]] = ...) -> None: ...

class RowInsertRequest(_message.Message):
    __slots__ = ("table_name", "rows")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table_name: str
    rows: Rows
    def __init__(self, table_name: _Optional[str] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ...) -> None: ...

class RowDeleteRequests(_message.Message):
    __slots__ = ("deletes",)
    DELETES_FIELD_NUMBER: _ClassVar[int]
    deletes: _containers.RepeatedCompositeFieldContainer[RowDeleteRequest]
    def __init__(self, deletes: _Optional[_Iterable[_Union[RowDeleteRequest, _Mapping]]] = ...) -> None: ...

class RowDeleteRequest(_message.Message):
    __slots__ = ("table_name", "rows")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table_name: str
    rows: Rows
    def __init__(self, table_name: _Optional[str] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("schema", "rows")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    schema: _containers.RepeatedCompositeFieldContainer[ColumnSchema]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, schema: _Optional[_Iterable[_Union[ColumnSchema, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class ColumnSchema(_message.Message):
    __slots__ = ("column_name", "datatype", "semantic_type", "datatype_extension", "options")
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_EXTENSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    datatype: ColumnDataType
    semantic_type: SemanticType
    datatype_extension: ColumnDataTypeExtension
    options: ColumnOptions
    def __init__(self, column_name: _Optional[str] = ..., datatype: _Optional[_Union[ColumnDataType, str]] = ..., semantic_type: _Optional[_Union[SemanticType, str]] = ..., datatype_extension: _Optional[_Union[ColumnDataTypeExtension, _Mapping]] = ..., options: _Optional[_Union[ColumnOptions, _Mapping]] = ...) -> None: ...

class ColumnOptions(_message.Message):
    __slots__ = ("options",)
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.ScalarMap[str, str]
    def __init__(self, options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("i8_value", "i16_value", "i32_value", "i64_value", "u8_value", "u16_value", "u32_value", "u64_value", "f32_value", "f64_value", "bool_value", "binary_value", "string_value", "date_value", "datetime_value", "timestamp_second_value", "timestamp_millisecond_value", "timestamp_microsecond_value", "timestamp_nanosecond_value", "time_second_value", "time_millisecond_value", "time_microsecond_value", "time_nanosecond_value", "interval_year_month_value", "interval_day_time_value", "interval_month_day_nano_value", "duration_second_value", "duration_millisecond_value", "duration_microsecond_value", "duration_nanosecond_value", "decimal128_value")
    I8_VALUE_FIELD_NUMBER: _ClassVar[int]
    I16_VALUE_FIELD_NUMBER: _ClassVar[int]
    I32_VALUE_FIELD_NUMBER: _ClassVar[int]
    I64_VALUE_FIELD_NUMBER: _ClassVar[int]
    U8_VALUE_FIELD_NUMBER: _ClassVar[int]
    U16_VALUE_FIELD_NUMBER: _ClassVar[int]
    U32_VALUE_FIELD_NUMBER: _ClassVar[int]
    U64_VALUE_FIELD_NUMBER: _ClassVar[int]
    F32_VALUE_FIELD_NUMBER: _ClassVar[int]
    F64_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    BINARY_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    DATE_VALUE_FIELD_NUMBER: _ClassVar[int]
    DATETIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_SECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MILLISECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MICROSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NANOSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_SECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_MILLISECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_MICROSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_NANOSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_YEAR_MONTH_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_DAY_TIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MONTH_DAY_NANO_VALUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_SECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MILLISECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MICROSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    DURATION_NANOSECOND_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECIMAL128_VALUE_FIELD_NUMBER: _ClassVar[int]
    i8_value: int
    i16_value: int
    i32_value: int
    i64_value: int
    u8_value: int
    u16_value: int
    u32_value: int
    u64_value: int
    f32_value: float
    f64_value: float
    bool_value: bool
    binary_value: bytes
    string_value: str
    date_value: int
    datetime_value: int
    timestamp_second_value: int
    timestamp_millisecond_value: int
    timestamp_microsecond_value: int
    timestamp_nanosecond_value: int
    time_second_value: int
    time_millisecond_value: int
    time_microsecond_value: int
    time_nanosecond_value: int
    interval_year_month_value: int
    interval_day_time_value: int
    interval_month_day_nano_value: IntervalMonthDayNano
    duration_second_value: int
    duration_millisecond_value: int
    duration_microsecond_value: int
    duration_nanosecond_value: int
    decimal128_value: Decimal128
    def __init__(self, i8_value: _Optional[int] = ..., i16_value: _Optional[int] = ..., i32_value: _Optional[int] = ..., i64_value: _Optional[int] = ..., u8_value: _Optional[int] = ..., u16_value: _Optional[int] = ..., u32_value: _Optional[int] = ..., u64_value: _Optional[int] = ..., f32_value: _Optional[float] = ..., f64_value: _Optional[float] = ..., bool_value: _Optional[bool] = ..., binary_value: _Optional[bytes] = ..., string_value: _Optional[str] = ..., date_value: _Optional[int] = ..., datetime_value: _Optional[int] = ..., timestamp_second_value: _Optional[int] = ..., timestamp_millisecond_value: _Optional[int] = ..., timestamp_microsecond_value: _Optional[int] = ..., timestamp_nanosecond_value: _Optional[int] = ..., time_second_value: _Optional[int] = ..., time_millisecond_value: _Optional[int] = ..., time_microsecond_value: _Optional[int] = ..., time_nanosecond_value: _Optional[int] = ..., interval_year_month_value: _Optional[int] = ..., interval_day_time_value: _Optional[int] = ..., interval_month_day_nano_value: _Optional[_Union[IntervalMonthDayNano, _Mapping]] = ..., duration_second_value: _Optional[int] = ..., duration_millisecond_value: _Optional[int] = ..., duration_microsecond_value: _Optional[int] = ..., duration_nanosecond_value: _Optional[int] = ..., decimal128_value: _Optional[_Union[Decimal128, _Mapping]] = ...) -> None: ...

class IntervalMonthDayNano(_message.Message):
    __slots__ = ("months", "days", "nanoseconds")
    MONTHS_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    months: int
    days: int
    nanoseconds: int
    def __init__(self, months: _Optional[int] = ..., days: _Optional[int] = ..., nanoseconds: _Optional[int] = ...) -> None: ...

class Decimal128(_message.Message):
    __slots__ = ("hi", "lo")
    HI_FIELD_NUMBER: _ClassVar[int]
    LO_FIELD_NUMBER: _ClassVar[int]
    hi: int
    lo: int
    def __init__(self, hi: _Optional[int] = ..., lo: _Optional[int] = ...) -> None: ...

class InsertRequests(_message.Message):
    __slots__ = ("inserts",)
    INSERTS_FIELD_NUMBER: _ClassVar[int]
    inserts: _containers.RepeatedCompositeFieldContainer[InsertRequest]
    def __init__(self, inserts: _Optional[_Iterable[_Union[InsertRequest, _Mapping]]] = ...) -> None: ...

class InsertRequest(_message.Message):
    __slots__ = ("table_name", "columns", "row_count")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    table_name: str
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    row_count: int
    def __init__(self, table_name: _Optional[str] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., row_count: _Optional[int] = ...) -> None: ...

class DeleteRequests(_message.Message):
    __slots__ = ("deletes",)
    DELETES_FIELD_NUMBER: _ClassVar[int]
    deletes: _containers.RepeatedCompositeFieldContainer[DeleteRequest]
    def __init__(self, deletes: _Optional[_Iterable[_Union[DeleteRequest, _Mapping]]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("table_name", "key_columns", "row_count")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    table_name: str
    key_columns: _containers.RepeatedCompositeFieldContainer[Column]
    row_count: int
    def __init__(self, table_name: _Optional[str] = ..., key_columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., row_count: _Optional[int] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("column_name", "semantic_type", "values", "null_mask", "datatype", "datatype_extension", "options")
    class Values(_message.Message):
        __slots__ = ("i8_values", "i16_values", "i32_values", "i64_values", "u8_values", "u16_values", "u32_values", "u64_values", "f32_values", "f64_values", "bool_values", "binary_values", "string_values", "date_values", "datetime_values", "timestamp_second_values", "timestamp_millisecond_values", "timestamp_microsecond_values", "timestamp_nanosecond_values", "time_second_values", "time_millisecond_values", "time_microsecond_values", "time_nanosecond_values", "interval_year_month_values", "interval_day_time_values", "interval_month_day_nano_values", "duration_second_values", "duration_millisecond_values", "duration_microsecond_values", "duration_nanosecond_values", "decimal128_values")
        I8_VALUES_FIELD_NUMBER: _ClassVar[int]
        I16_VALUES_FIELD_NUMBER: _ClassVar[int]
        I32_VALUES_FIELD_NUMBER: _ClassVar[int]
        I64_VALUES_FIELD_NUMBER: _ClassVar[int]
        U8_VALUES_FIELD_NUMBER: _ClassVar[int]
        U16_VALUES_FIELD_NUMBER: _ClassVar[int]
        U32_VALUES_FIELD_NUMBER: _ClassVar[int]
        U64_VALUES_FIELD_NUMBER: _ClassVar[int]
        F32_VALUES_FIELD_NUMBER: _ClassVar[int]
        F64_VALUES_FIELD_NUMBER: _ClassVar[int]
        BOOL_VALUES_FIELD_NUMBER: _ClassVar[int]
        BINARY_VALUES_FIELD_NUMBER: _ClassVar[int]
        STRING_VALUES_FIELD_NUMBER: _ClassVar[int]
        DATE_VALUES_FIELD_NUMBER: _ClassVar[int]
        DATETIME_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_SECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_MILLISECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_MICROSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_NANOSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIME_SECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIME_MILLISECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIME_MICROSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        TIME_NANOSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        INTERVAL_YEAR_MONTH_VALUES_FIELD_NUMBER: _ClassVar[int]
        INTERVAL_DAY_TIME_VALUES_FIELD_NUMBER: _ClassVar[int]
        INTERVAL_MONTH_DAY_NANO_VALUES_FIELD_NUMBER: _ClassVar[int]
        DURATION_SECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        DURATION_MILLISECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        DURATION_MICROSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        DURATION_NANOSECOND_VALUES_FIELD_NUMBER: _ClassVar[int]
        DECIMAL128_VALUES_FIELD_NUMBER: _ClassVar[int]
        i8_values: _containers.RepeatedScalarFieldContainer[int]
        i16_values: _containers.RepeatedScalarFieldContainer[int]
        i32_values: _containers.RepeatedScalarFieldContainer[int]
        i64_values: _containers.RepeatedScalarFieldContainer[int]
        u8_values: _containers.RepeatedScalarFieldContainer[int]
        u16_values: _containers.RepeatedScalarFieldContainer[int]
        u32_values: _containers.RepeatedScalarFieldContainer[int]
        u64_values: _containers.RepeatedScalarFieldContainer[int]
        f32_values: _containers.RepeatedScalarFieldContainer[float]
        f64_values: _containers.RepeatedScalarFieldContainer[float]
        bool_values: _containers.RepeatedScalarFieldContainer[bool]
        binary_values: _containers.RepeatedScalarFieldContainer[bytes]
        string_values: _containers.RepeatedScalarFieldContainer[str]
        date_values: _containers.RepeatedScalarFieldContainer[int]
        datetime_values: _containers.RepeatedScalarFieldContainer[int]
        timestamp_second_values: _containers.RepeatedScalarFieldContainer[int]
        timestamp_millisecond_values: _containers.RepeatedScalarFieldContainer[int]
        timestamp_microsecond_values: _containers.RepeatedScalarFieldContainer[int]
        timestamp_nanosecond_values: _containers.RepeatedScalarFieldContainer[int]
        time_second_values: _containers.RepeatedScalarFieldContainer[int]
        time_millisecond_values: _containers.RepeatedScalarFieldContainer[int]
        time_microsecond_values: _containers.RepeatedScalarFieldContainer[int]
        time_nanosecond_values: _containers.RepeatedScalarFieldContainer[int]
        interval_year_month_values: _containers.RepeatedScalarFieldContainer[int]
        interval_day_time_values: _containers.RepeatedScalarFieldContainer[int]
        interval_month_day_nano_values: _containers.RepeatedCompositeFieldContainer[IntervalMonthDayNano]
        duration_second_values: _containers.RepeatedScalarFieldContainer[int]
        duration_millisecond_values: _containers.RepeatedScalarFieldContainer[int]
        duration_microsecond_values: _containers.RepeatedScalarFieldContainer[int]
        duration_nanosecond_values: _containers.RepeatedScalarFieldContainer[int]
        decimal128_values: _containers.RepeatedCompositeFieldContainer[Decimal128]
        def __init__(self, i8_values: _Optional[_Iterable[int]] = ..., i16_values: _Optional[_Iterable[int]] = ..., i32_values: _Optional[_Iterable[int]] = ..., i64_values: _Optional[_Iterable[int]] = ..., u8_values: _Optional[_Iterable[int]] = ..., u16_values: _Optional[_Iterable[int]] = ..., u32_values: _Optional[_Iterable[int]] = ..., u64_values: _Optional[_Iterable[int]] = ..., f32_values: _Optional[_Iterable[float]] = ..., f64_values: _Optional[_Iterable[float]] = ..., bool_values: _Optional[_Iterable[bool]] = ..., binary_values: _Optional[_Iterable[bytes]] = ..., string_values: _Optional[_Iterable[str]] = ..., date_values: _Optional[_Iterable[int]] = ..., datetime_values: _Optional[_Iterable[int]] = ..., timestamp_second_values: _Optional[_Iterable[int]] = ..., timestamp_millisecond_values: _Optional[_Iterable[int]] = ..., timestamp_microsecond_values: _Optional[_Iterable[int]] = ..., timestamp_nanosecond_values: _Optional[_Iterable[int]] = ..., time_second_values: _Optional[_Iterable[int]] = ..., time_millisecond_values: _Optional[_Iterable[int]] = ..., time_microsecond_values: _Optional[_Iterable[int]] = ..., time_nanosecond_values: _Optional[_Iterable[int]] = ..., interval_year_month_values: _Optional[_Iterable[int]] = ..., interval_day_time_values: _Optional[_Iterable[int]] = ..., interval_month_day_nano_values: _Optional[_Iterable[_Union[IntervalMonthDayNano, _Mapping]]] = ..., duration_second_values: _Optional[_Iterable[int]] = ..., duration_millisecond_values: _Optional[_Iterable[int]] = ..., duration_microsecond_values: _Optional[_Iterable[int]] = ..., duration_nanosecond_values: _Optional[_Iterable[int]] = ..., decimal128_values: _Optional[_Iterable[_Union[Decimal128, _Mapping]]] = ...) -> None: ...
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NULL_MASK_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_EXTENSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    semantic_type: SemanticType
    values: Column.Values
    null_mask: bytes
    datatype: ColumnDataType
    datatype_extension: ColumnDataTypeExtension
    options: ColumnOptions
    def __init__(self, column_name: _Optional[str] = ..., semantic_type: _Optional[_Union[SemanticType, str]] = ..., values: _Optional[_Union[Column.Values, _Mapping]] = ..., null_mask: _Optional[bytes] = ..., datatype: _Optional[_Union[ColumnDataType, str]] = ..., datatype_extension: _Optional[_Union[ColumnDataTypeExtension, _Mapping]] = ..., options: _Optional[_Union[ColumnOptions, _Mapping]] = ...) -> None: ...

class ColumnDataTypeExtension(_message.Message):
    __slots__ = ("decimal_type", "json_type", "vector_type")
    DECIMAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    JSON_TYPE_FIELD_NUMBER: _ClassVar[int]
    VECTOR_TYPE_FIELD_NUMBER: _ClassVar[int]
    decimal_type: DecimalTypeExtension
    json_type: JsonTypeExtension
    vector_type: VectorTypeExtension
    def __init__(self, decimal_type: _Optional[_Union[DecimalTypeExtension, _Mapping]] = ..., json_type: _Optional[_Union[JsonTypeExtension, str]] = ..., vector_type: _Optional[_Union[VectorTypeExtension, _Mapping]] = ...) -> None: ...

class DecimalTypeExtension(_message.Message):
    __slots__ = ("precision", "scale")
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    precision: int
    scale: int
    def __init__(self, precision: _Optional[int] = ..., scale: _Optional[int] = ...) -> None: ...

class VectorTypeExtension(_message.Message):
    __slots__ = ("dim",)
    DIM_FIELD_NUMBER: _ClassVar[int]
    dim: int
    def __init__(self, dim: _Optional[int] = ...) -> None: ...

class DdlRequest(_message.Message):
    __slots__ = ("create_database", "create_table", "alter_table", "drop_table", "truncate_table", "create_flow", "drop_flow", "create_view", "drop_view", "alter_database")
    CREATE_DATABASE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TABLE_FIELD_NUMBER: _ClassVar[int]
    ALTER_TABLE_FIELD_NUMBER: _ClassVar[int]
    DROP_TABLE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_TABLE_FIELD_NUMBER: _ClassVar[int]
    CREATE_FLOW_FIELD_NUMBER: _ClassVar[int]
    DROP_FLOW_FIELD_NUMBER: _ClassVar[int]
    CREATE_VIEW_FIELD_NUMBER: _ClassVar[int]
    DROP_VIEW_FIELD_NUMBER: _ClassVar[int]
    ALTER_DATABASE_FIELD_NUMBER: _ClassVar[int]
    create_database: CreateDatabaseExpr
    create_table: CreateTableExpr
    alter_table: AlterTableExpr
    drop_table: DropTableExpr
    truncate_table: TruncateTableExpr
    create_flow: CreateFlowExpr
    drop_flow: DropFlowExpr
    create_view: CreateViewExpr
    drop_view: DropViewExpr
    alter_database: AlterDatabaseExpr
    def __init__(self, create_database: _Optional[_Union[CreateDatabaseExpr, _Mapping]] = ..., create_table: _Optional[_Union[CreateTableExpr, _Mapping]] = ..., alter_table: _Optional[_Union[AlterTableExpr, _Mapping]] = ..., drop_table: _Optional[_Union[DropTableExpr, _Mapping]] = ..., truncate_table: _Optional[_Union[TruncateTableExpr, _Mapping]] = ..., create_flow: _Optional[_Union[CreateFlowExpr, _Mapping]] = ..., drop_flow: _Optional[_Union[DropFlowExpr, _Mapping]] = ..., create_view: _Optional[_Union[CreateViewExpr, _Mapping]] = ..., drop_view: _Optional[_Union[DropViewExpr, _Mapping]] = ..., alter_database: _Optional[_Union[AlterDatabaseExpr, _Mapping]] = ...) -> None: ...

class TableId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class CreateDatabaseExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "create_if_not_exists", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    CREATE_IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    create_if_not_exists: bool
    options: _containers.ScalarMap[str, str]
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., create_if_not_exists: _Optional[bool] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateTableExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "table_name", "desc", "column_defs", "time_index", "primary_keys", "create_if_not_exists", "table_options", "table_id", "engine")
    class TableOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    DESC_FIELD_NUMBER: _ClassVar[int]
    COLUMN_DEFS_FIELD_NUMBER: _ClassVar[int]
    TIME_INDEX_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEYS_FIELD_NUMBER: _ClassVar[int]
    CREATE_IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    TABLE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    table_name: str
    desc: str
    column_defs: _containers.RepeatedCompositeFieldContainer[ColumnDef]
    time_index: str
    primary_keys: _containers.RepeatedScalarFieldContainer[str]
    create_if_not_exists: bool
    table_options: _containers.ScalarMap[str, str]
    table_id: TableId
    engine: str
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., table_name: _Optional[str] = ..., desc: _Optional[str] = ..., column_defs: _Optional[_Iterable[_Union[ColumnDef, _Mapping]]] = ..., time_index: _Optional[str] = ..., primary_keys: _Optional[_Iterable[str]] = ..., create_if_not_exists: _Optional[bool] = ..., table_options: _Optional[_Mapping[str, str]] = ..., table_id: _Optional[_Union[TableId, _Mapping]] = ..., engine: _Optional[str] = ...) -> None: ...

class ColumnDef(_message.Message):
    __slots__ = ("name", "data_type", "is_nullable", "default_constraint", "semantic_type", "comment", "datatype_extension", "options")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    IS_NULLABLE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_EXTENSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    data_type: ColumnDataType
    is_nullable: bool
    default_constraint: bytes
    semantic_type: SemanticType
    comment: str
    datatype_extension: ColumnDataTypeExtension
    options: ColumnOptions
    def __init__(self, name: _Optional[str] = ..., data_type: _Optional[_Union[ColumnDataType, str]] = ..., is_nullable: _Optional[bool] = ..., default_constraint: _Optional[bytes] = ..., semantic_type: _Optional[_Union[SemanticType, str]] = ..., comment: _Optional[str] = ..., datatype_extension: _Optional[_Union[ColumnDataTypeExtension, _Mapping]] = ..., options: _Optional[_Union[ColumnOptions, _Mapping]] = ...) -> None: ...

class DropTableExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "table_name", "table_id", "drop_if_exists")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    DROP_IF_EXISTS_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    table_name: str
    table_id: TableId
    drop_if_exists: bool
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., table_name: _Optional[str] = ..., table_id: _Optional[_Union[TableId, _Mapping]] = ..., drop_if_exists: _Optional[bool] = ...) -> None: ...

class TruncateTableExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "table_name", "table_id")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    table_name: str
    table_id: TableId
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., table_name: _Optional[str] = ..., table_id: _Optional[_Union[TableId, _Mapping]] = ...) -> None: ...

class AlterTableExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "table_name", "add_columns", "drop_columns", "rename_table", "modify_column_types", "set_table_options", "unset_table_options", "drop_defaults")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    ADD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    DROP_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    RENAME_TABLE_FIELD_NUMBER: _ClassVar[int]
    MODIFY_COLUMN_TYPES_FIELD_NUMBER: _ClassVar[int]
    SET_TABLE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    UNSET_TABLE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DROP_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    table_name: str
    add_columns: AddColumns
    drop_columns: DropColumns
    rename_table: RenameTable
    modify_column_types: ModifyColumnTypes
    set_table_options: SetTableOptions
    unset_table_options: UnsetTableOptions
    drop_defaults: DropDefaults
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., table_name: _Optional[str] = ..., add_columns: _Optional[_Union[AddColumns, _Mapping]] = ..., drop_columns: _Optional[_Union[DropColumns, _Mapping]] = ..., rename_table: _Optional[_Union[RenameTable, _Mapping]] = ..., modify_column_types: _Optional[_Union[ModifyColumnTypes, _Mapping]] = ..., set_table_options: _Optional[_Union[SetTableOptions, _Mapping]] = ..., unset_table_options: _Optional[_Union[UnsetTableOptions, _Mapping]] = ..., drop_defaults: _Optional[_Union[DropDefaults, _Mapping]] = ...) -> None: ...

class AddColumns(_message.Message):
    __slots__ = ("add_columns",)
    ADD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    add_columns: _containers.RepeatedCompositeFieldContainer[AddColumn]
    def __init__(self, add_columns: _Optional[_Iterable[_Union[AddColumn, _Mapping]]] = ...) -> None: ...

class AddColumn(_message.Message):
    __slots__ = ("column_def", "location", "add_if_not_exists")
    COLUMN_DEF_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    ADD_IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    column_def: ColumnDef
    location: AddColumnLocation
    add_if_not_exists: bool
    def __init__(self, column_def: _Optional[_Union[ColumnDef, _Mapping]] = ..., location: _Optional[_Union[AddColumnLocation, _Mapping]] = ..., add_if_not_exists: _Optional[bool] = ...) -> None: ...

class AddColumnLocation(_message.Message):
    __slots__ = ("location_type", "after_column_name")
    class LocationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FIRST: _ClassVar[AddColumnLocation.LocationType]
        AFTER: _ClassVar[AddColumnLocation.LocationType]
    FIRST: AddColumnLocation.LocationType
    AFTER: AddColumnLocation.LocationType
    LOCATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    AFTER_COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    location_type: AddColumnLocation.LocationType
    after_column_name: str
    def __init__(self, location_type: _Optional[_Union[AddColumnLocation.LocationType, str]] = ..., after_column_name: _Optional[str] = ...) -> None: ...

class DropColumns(_message.Message):
    __slots__ = ("drop_columns",)
    DROP_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    drop_columns: _containers.RepeatedCompositeFieldContainer[DropColumn]
    def __init__(self, drop_columns: _Optional[_Iterable[_Union[DropColumn, _Mapping]]] = ...) -> None: ...

class DropColumn(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RenameTable(_message.Message):
    __slots__ = ("new_table_name",)
    NEW_TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    new_table_name: str
    def __init__(self, new_table_name: _Optional[str] = ...) -> None: ...

class ModifyColumnTypes(_message.Message):
    __slots__ = ("modify_column_types",)
    MODIFY_COLUMN_TYPES_FIELD_NUMBER: _ClassVar[int]
    modify_column_types: _containers.RepeatedCompositeFieldContainer[ModifyColumnType]
    def __init__(self, modify_column_types: _Optional[_Iterable[_Union[ModifyColumnType, _Mapping]]] = ...) -> None: ...

class ModifyColumnType(_message.Message):
    __slots__ = ("column_name", "target_type", "target_type_extension")
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_TYPE_FIELD_NUMBER: _ClassVar[int]
    TARGET_TYPE_EXTENSION_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    target_type: ColumnDataType
    target_type_extension: ColumnDataTypeExtension
    def __init__(self, column_name: _Optional[str] = ..., target_type: _Optional[_Union[ColumnDataType, str]] = ..., target_type_extension: _Optional[_Union[ColumnDataTypeExtension, _Mapping]] = ...) -> None: ...

class Option(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SetTableOptions(_message.Message):
    __slots__ = ("table_options",)
    TABLE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    table_options: _containers.RepeatedCompositeFieldContainer[Option]
    def __init__(self, table_options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ...) -> None: ...

class UnsetTableOptions(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class DropDefaults(_message.Message):
    __slots__ = ("drop_defaults",)
    DROP_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    drop_defaults: _containers.RepeatedCompositeFieldContainer[DropDefault]
    def __init__(self, drop_defaults: _Optional[_Iterable[_Union[DropDefault, _Mapping]]] = ...) -> None: ...

class DropDefault(_message.Message):
    __slots__ = ("column_name",)
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    def __init__(self, column_name: _Optional[str] = ...) -> None: ...

class CreateFlowExpr(_message.Message):
    __slots__ = ("flow_name",)
    FLOW_NAME_FIELD_NUMBER: _ClassVar[int]
    flow_name: str
    def __init__(self, flow_name: _Optional[str] = ...) -> None: ...

class DropFlowExpr(_message.Message):
    __slots__ = ("flow_name",)
    FLOW_NAME_FIELD_NUMBER: _ClassVar[int]
    flow_name: str
    def __init__(self, flow_name: _Optional[str] = ...) -> None: ...

class CreateViewExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "view_name", "logical_plan", "create_if_not_exists", "or_replace", "columns", "definition")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_NAME_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_PLAN_FIELD_NUMBER: _ClassVar[int]
    CREATE_IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    OR_REPLACE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    view_name: str
    logical_plan: bytes
    create_if_not_exists: bool
    or_replace: bool
    columns: _containers.RepeatedScalarFieldContainer[str]
    definition: str
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., view_name: _Optional[str] = ..., logical_plan: _Optional[bytes] = ..., create_if_not_exists: _Optional[bool] = ..., or_replace: _Optional[bool] = ..., columns: _Optional[_Iterable[str]] = ..., definition: _Optional[str] = ...) -> None: ...

class DropViewExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "view_name", "view_id", "drop_if_exists")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    DROP_IF_EXISTS_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    view_name: str
    view_id: TableId
    drop_if_exists: bool
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., view_name: _Optional[str] = ..., view_id: _Optional[_Union[TableId, _Mapping]] = ..., drop_if_exists: _Optional[bool] = ...) -> None: ...

class AlterDatabaseExpr(_message.Message):
    __slots__ = ("catalog_name", "schema_name", "set_database_options", "unset_database_options")
    CATALOG_NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_NAME_FIELD_NUMBER: _ClassVar[int]
    SET_DATABASE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    UNSET_DATABASE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    catalog_name: str
    schema_name: str
    set_database_options: SetDatabaseOptions
    unset_database_options: UnsetDatabaseOptions
    def __init__(self, catalog_name: _Optional[str] = ..., schema_name: _Optional[str] = ..., set_database_options: _Optional[_Union[SetDatabaseOptions, _Mapping]] = ..., unset_database_options: _Optional[_Union[UnsetDatabaseOptions, _Mapping]] = ...) -> None: ...

class SetDatabaseOptions(_message.Message):
    __slots__ = ("set_database_options",)
    SET_DATABASE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    set_database_options: _containers.RepeatedCompositeFieldContainer[Option]
    def __init__(self, set_database_options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ...) -> None: ...

class UnsetDatabaseOptions(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...
