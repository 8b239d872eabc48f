"""The code of the messages is what their files say."""

from __future__ import annotations

from pathlib import Path

from tsdb.servers.grpc.proto.envelope_pb2 import Envelope
from tsdb.servers.grpc.proto.generate import ROOT, generate
from tsdb.servers.grpc.proto.greptime_pb2 import GreptimeRequest


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    generate(tmp_path)
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    kept = {
        path.relative_to(ROOT): path.read_text()
        for path in (ROOT / "tsdb").rglob("*_pb2.py*")
        if "__pycache__" not in path.parts
    }
    assert made == kept, "run make generate"


def test_an_envelope_has_the_fields_of_a_request() -> None:
    numbers = {each.name: each.number for each in GreptimeRequest.DESCRIPTOR.fields}
    assert {each.name: each.number for each in Envelope.DESCRIPTOR.fields} == numbers
