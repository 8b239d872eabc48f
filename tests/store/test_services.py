"""Every kind of service as the configuration reaches it, answered by an emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.store.kinds import KINDS, Service, running_service
from tests.store.services import PATIENT
from tsdb.store import InvalidRange, ObjectExists, ObjectNotFound
from tsdb.store.remote import RemoteStore

MIB = 1 << 20


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(request.param, tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def store(service: Service) -> RemoteStore:
    return service.store("some/root", replace(PATIENT, part_bytes_min=5 * MIB))


def test_a_service_stores_objects_and_creates_them_only_once(store: RemoteStore) -> None:
    store.probe()
    assert store.creates_only_once
    names = [f"d/{number}" for number in range(8)]
    for name in names:
        store.put_if_absent(name, name.encode())
    with pytest.raises(ObjectExists):
        store.put_if_absent("d/3", b"other")
    assert store.get("d/3") == b"d/3"
    store.put("d/3", b"0123456789")
    assert store.get_range("d/3", 2, 3) == b"234"
    with pytest.raises(InvalidRange, match="size_bytes: 10"):
        store.get_range("d/3", 8, 3)
    assert store.head("d/3").size_bytes == 10
    assert [meta.path for meta in store.list("d")] == names
    assert [meta.path for meta in store.list("d", "d/4")] == names[5:]
    store.delete("d/0")
    store.delete("d/0")
    with pytest.raises(ObjectNotFound):
        store.head("d/0")
    with pytest.raises(ObjectNotFound):
        store.get("d/0")
    store.delete_prefix("d")
    assert list(store.list("")) == []


def test_a_large_object_is_uploaded_in_parts_and_appears_at_the_end(store: RemoteStore) -> None:
    content = bytes(range(256)) * (12 * MIB // 256) + b"end"
    with store.writer("large", 5 * MIB) as sink:
        for start in range(0, len(content), MIB):
            sink.write(content[start : start + MIB])
        with pytest.raises(ObjectNotFound):
            store.head("large")
    assert store.head("large").size_bytes == len(content)
    assert store.get_range("large", 5 * MIB - 2, 4) == content[5 * MIB - 2 : 5 * MIB + 2]
    assert store.get("large") == content
    with suppress(ZeroDivisionError), store.writer("broken", 5 * MIB) as sink:
        sink.write(content)
        raise ZeroDivisionError
    assert [meta.path for meta in store.list("")] == ["large"]
    store.delete("large")
