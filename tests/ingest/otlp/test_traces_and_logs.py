"""Spans and log records: the types of attributes, what is refused, and which tables list them."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tsdb.errors import InvalidArguments
from tsdb.ingest.otlp import OtlpItems, choice_rows, parse_logs, parse_traces, trace_tables
from tsdb.model import DataType, Kind, PartitionRule


def _spans(*values: AnyValue | None, service: str | None = "shop") -> OtlpItems:
    """One span for each value, which is its attribute `a`."""
    request = ExportTraceServiceRequest()
    found = request.resource_spans.add()
    if service is not None:
        found.resource.attributes.add(key="service.name").value.string_value = service
    spans = found.scope_spans.add().spans
    for number, value in enumerate(values, 1):
        span = spans.add(trace_id=bytes([number] * 16), span_id=bytes([number] * 8), name=f"s{number}")
        span.start_time_unix_nano, span.end_time_unix_nano = number, number + 5
        if value is not None:
            span.attributes.add(key="a").value.CopyFrom(value)
    return parse_traces(request.SerializeToString())


def _column(*values: AnyValue | None) -> tuple[pa.DataType, list[object]]:
    (rows,) = _spans(*values).rows
    column = rows.fields["span_attributes.a"]
    return column.type, column.to_pylist()


def test_attributes_keep_their_types() -> None:
    assert _column(AnyValue(string_value="x"), None) == (pa.string(), ["x", None])
    assert _column(AnyValue(bool_value=True)) == (pa.bool_(), [True])
    assert _column(AnyValue(int_value=-(2**63))) == (pa.int64(), [-(2**63)])
    assert _column(AnyValue(bytes_value=b"\x00")) == (pa.binary(), [b"\x00"])


def test_whole_numbers_beside_fractions_are_floats_and_other_mixtures_text() -> None:
    assert _column(AnyValue(int_value=1), AnyValue(double_value=0.5)) == (pa.float64(), [1.0, 0.5])
    mixed = _column(AnyValue(int_value=1), AnyValue(string_value="x"), AnyValue(bool_value=True))
    assert mixed == (pa.string(), ["1", "x", "true"])


def test_an_array_is_json_and_says_so() -> None:
    value = AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue(bytes_value=b"a"), AnyValue()]))
    (rows,) = _spans(value).rows
    assert rows.fields["span_attributes.a"].to_pylist() == ['[1,"YQ==",null]']
    assert rows.types["span_attributes.a"] == DataType(Kind.JSON)


def test_a_span_without_ids_or_time_is_refused_and_its_neighbours_are_not() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(name="no ids", start_time_unix_nano=1)
    spans.add(name="no time", trace_id=b"t" * 16, span_id=b"s" * 8)
    spans.add(name="far", trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=2**63)
    spans.add(name="good", trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=7)
    parsed = parse_traces(request.SerializeToString())
    assert [each.place for each in parsed.rejections] == [0, 1, 2]
    assert parsed.items == 4
    (rows,) = parsed.rows
    assert rows.fields["span_name"].to_pylist() == ["good"]
    assert rows.fields["timestamp_end"].to_pylist() == [None]
    assert rows.fields["duration_nano"].to_pylist() == [0]


def test_events_and_links_are_json_with_readable_times() -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    span.start_time_unix_nano = 1
    span.events.add(name="e", time_unix_nano=1_700_000_000_000_000_001)
    span.links.add(trace_id=b"\x01" * 16, span_id=b"\x02" * 8, trace_state="k=v")
    (rows,) = parse_traces(request.SerializeToString()).rows
    assert rows.fields["span_events"].to_pylist() == [
        '[{"name":"e","time":"2023-11-14 22:13:20.000000001","attributes":{}}]'
    ]
    link = f'[{{"trace_id":"{"01" * 16}","span_id":"{"02" * 8}","trace_state":"k=v","attributes":{{}}}}]'
    assert rows.fields["span_links"].to_pylist() == [link]


def test_a_kind_that_this_version_does_not_know_is_not_specified() -> None:
    request = ExportTraceServiceRequest()
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=1)
    span.MergeFromString(b"\x30\x63")
    request.resource_spans.add().scope_spans.add().spans.append(span)
    (rows,) = parse_traces(request.SerializeToString()).rows
    assert rows.fields["span_kind"].to_pylist() == ["SPAN_KIND_UNSPECIFIED"]


def test_spans_without_a_service_still_have_the_tag() -> None:
    parsed = _spans(None, service=None)
    assert parsed.rows[0].read_tags().to_pylist() == [{"service_name": None}]
    services, operations = choice_rows(parsed.rows)
    assert services.read_tags().to_pylist() == [{"service_name": ""}]
    expected = {"service_name": "", "span_name": "s1", "span_kind": "SPAN_KIND_UNSPECIFIED"}
    assert operations.read_tags().to_pylist() == [expected]


def test_a_record_has_its_own_time_or_that_of_its_observation_or_of_its_arrival() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(time_unix_nano=3, observed_time_unix_nano=2)
    records.add(observed_time_unix_nano=2)
    records.add()
    records.add(time_unix_nano=2**63)
    parsed = parse_logs(request.SerializeToString(), now_ns=9)
    assert parsed.rows[0].times.tolist() == [3, 2, 9]
    assert [each.place for each in parsed.rejections] == [3]


@given(st.binary(max_size=200))
def test_any_bytes_are_spans_and_records_or_refused(body: bytes) -> None:
    with suppress(InvalidArguments):
        assert parse_traces(body).items >= 0
    with suppress(InvalidArguments):
        assert parse_logs(body, now_ns=1).items >= 0


@pytest.mark.parametrize("partitions", [1, 2, 16, 32, 256])
def test_every_trace_is_in_exactly_one_region(partitions: int) -> None:
    made = trace_tables(partitions)
    assert len(made.partition_rules) == (partitions if partitions > 1 else 0)
    rule = PartitionRule.parse(made.partition_columns, made.partition_rules, {"trace_id": DataType(Kind.STRING)})
    assert rule.texts == made.partition_rules
    traces = [f"{number:02x}{'0' * 30}" for number in range(256)]
    regions = rule.route(pa.table({"trace_id": traces}))
    assert regions.tolist() == [number * partitions // 256 for number in range(256)]


@pytest.mark.parametrize("partitions", [-1, 0, 3, 24, 512])
def test_a_number_of_regions_that_cannot_be_is_refused(partitions: int) -> None:
    with pytest.raises(InvalidArguments, match="power of two up to 256"):
        trace_tables(partitions)
