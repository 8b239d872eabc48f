"""What actions make of a state, and which of them are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.manifest.model import Model
from tests.engine.manifest.regions import NOW_MS, OPTIONS, REGION, SCHEMA, file_id, make_file, next_schema
from tsdb.engine.errors import InvalidManifestAction
from tsdb.engine.manifest import (
    Action,
    Change,
    Edit,
    FileMeta,
    Forget,
    ManifestState,
    QuarantinedFile,
    Remove,
    RemovedFile,
    Truncate,
    apply,
)
from tsdb.engine.manifest._actions import action_from_json, action_to_json
from tsdb.model import RegionOptions, TimeRange
from tsdb.units import Duration

A, B, C = make_file(0), make_file(1), make_file(2)
OLDER_MS = NOW_MS - 5
STATE = ManifestState(
    REGION,
    SCHEMA,
    OPTIONS,
    files=MappingProxyType({A.file_id: A, B.file_id: B}),
    flushed_entry_id=10,
    flushed_sequence=100,
    removed_files=(RemovedFile(file_id(9), OLDER_MS),),
    version=4,
    epoch=2,
)
NO_FILES: MappingProxyType[str, FileMeta] = MappingProxyType({})
GONE = (RemovedFile(file_id(9), OLDER_MS), RemovedFile(A.file_id, NOW_MS), RemovedFile(B.file_id, NOW_MS))
LASTING = RegionOptions(append_mode=True, ttl=Duration.parse("7d"))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Change(options=LASTING), replace(STATE, options=LASTING)),
        (Change(schema=next_schema(SCHEMA)), replace(STATE, schema=next_schema(SCHEMA))),
        (
            Edit(added=(C,), flushed_entry_id=12, flushed_sequence=130),
            replace(
                STATE,
                files=MappingProxyType({**STATE.files, C.file_id: C}),
                flushed_entry_id=12,
                flushed_sequence=130,
            ),
        ),
        (
            Edit(added=(C,), removed=(B.file_id, A.file_id)),
            replace(STATE, files=MappingProxyType({C.file_id: C}), removed_files=GONE),
        ),
        (Edit(flushed_entry_id=10, flushed_sequence=100), STATE),
        (Edit(compaction_window_seconds=3600), replace(STATE, compaction_window_seconds=3600)),
        (
            Truncate(entry_id=15, sequence=150),
            replace(
                STATE,
                files=NO_FILES,
                removed_files=GONE,
                flushed_entry_id=15,
                flushed_sequence=150,
                truncated_entry_id=15,
            ),
        ),
        (Remove(), replace(STATE, files=NO_FILES, removed_files=GONE, is_removed=True)),
        (Forget((file_id(9),)), replace(STATE, removed_files=())),
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, ManifestState) else "",
)
def test_an_action_changes_what_it_names_and_nothing_else(action: Action, expected: ManifestState) -> None:
    assert apply(STATE, action, now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Change(), "neither a schema nor options"),
        (Change(schema=SCHEMA), "version 0 does not follow version 0"),
        (Edit(removed=(C.file_id,)), f"removed that are not there: {C.file_id}"),
        (Edit(removed=(A.file_id, A.file_id)), "names a file twice"),
        (Edit(added=(A,)), f"added that are or were there: {A.file_id}"),
        (Edit(added=(C, C)), "names a file twice"),
        (Edit(added=(A,), removed=(A.file_id,)), "added that are or were there"),
        (Edit(added=(make_file(9),)), "added that are or were there"),
        (Edit(flushed_entry_id=9), "flushed_entry_id went backwards, from 10 to 9"),
        (Edit(flushed_sequence=99), "flushed_sequence went backwards, from 100 to 99"),
        (Edit(compaction_window_seconds=0), "window of 0 seconds is not positive"),
        (Truncate(entry_id=9, sequence=100), "flushed_entry_id went backwards"),
        (Truncate(entry_id=10, sequence=99), "flushed_sequence went backwards"),
        (Forget((A.file_id,)), "forgotten that were not removed"),
        (Forget((file_id(9), file_id(9))), "names a file twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_action_that_does_not_fit_is_refused_with_its_reason(action: Action, reason: str) -> None:
    with pytest.raises(InvalidManifestAction, match=reason):
        apply(STATE, action, now_ms=NOW_MS)


@pytest.mark.parametrize("action", [Change(options=LASTING), Edit(), Truncate(20, 200), Remove(), Forget(())])
def test_nothing_follows_a_removal(action: Action) -> None:
    removed = apply(STATE, Remove(), now_ms=NOW_MS)
    with pytest.raises(InvalidManifestAction, match="the region is removed"):
        apply(removed, action, now_ms=NOW_MS)


def test_a_state_and_its_files_cannot_be_changed_in_place() -> None:
    state = apply(STATE, Edit(added=(C,)), now_ms=NOW_MS)
    with pytest.raises(TypeError):
        state.files[A.file_id] = A  # type: ignore[index]
    assert C.file_id not in STATE.files


def test_a_file_written_by_a_newer_server_is_readable() -> None:
    assert FileMeta.from_json({**A.to_json(), "primary_key_min": "aa"}) == A


@pytest.mark.parametrize("bad", ["", "../x", "0" * 31, "G" * 32, "A" * 32])
def test_a_file_id_is_32_hexadecimal_digits(bad: str) -> None:
    with pytest.raises(ValueError, match="not the id of a file"):
        replace(A, file_id=bad)


_small = st.integers(0, 7)
_ids = st.lists(_small.map(file_id), max_size=3).map(tuple)
_positions = st.none() | st.integers(0, 30)
_suspects = st.builds(QuarantinedFile, _small.map(file_id), st.integers(0, 9), st.sampled_from(["missing", "short"]))
_actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        Edit,
        added=st.lists(_small.map(make_file), max_size=3).map(tuple),
        removed=_ids,
        flushed_entry_id=_positions,
        flushed_sequence=_positions,
        compaction_window_seconds=st.sampled_from([None, None, 0, 60, 3600]),
    ),
    st.builds(Edit, added=st.lists(_small.map(make_file), max_size=2, unique=True).map(tuple)),
    st.builds(Edit, removed=_ids),
    st.builds(Edit, removed=_ids, quarantined=st.lists(_suspects, max_size=2).map(tuple), released=_ids),
    st.builds(Edit, quarantined=st.lists(_suspects, min_size=1, max_size=2).map(tuple)),
    st.builds(Edit, released=_ids),
    st.builds(Truncate, entry_id=st.integers(0, 30), sequence=st.integers(0, 30)),
    st.builds(Forget, _ids),
    st.builds(
        Change, schema=st.sampled_from([None, SCHEMA, next_schema(SCHEMA)]), options=st.sampled_from([None, LASTING])
    ),
    st.just(Remove()),
)


@given(st.lists(_actions, max_size=12))
def test_apply_agrees_with_a_plain_model(actions: list[Action]) -> None:
    state, model = ManifestState(REGION, SCHEMA, OPTIONS), Model(SCHEMA, OPTIONS)
    for now_ms, action in enumerate(actions):
        if model.accepts(action):
            state = apply(state, action, now_ms=now_ms)
            model.do(action, now_ms)
        else:
            with pytest.raises(InvalidManifestAction):
                apply(state, action, now_ms=now_ms)
        model.check(state)


@given(_actions)
def test_actions_survive_json(action: Action) -> None:
    assert action_from_json(action_to_json(action)) == action


def test_a_state_survives_json_and_one_of_an_earlier_version_has_nothing_quarantined() -> None:
    suspect = QuarantinedFile(A.file_id, NOW_MS, "it is missing")
    state = apply(STATE, Edit(quarantined=(suspect,)), now_ms=NOW_MS)
    written = json.loads(json.dumps(state.to_json()))
    assert ManifestState.from_json(written) == state
    del written["quarantined"]
    assert ManifestState.from_json(written) == STATE


def test_the_whole_range_of_time_survives_json() -> None:
    widest = replace(A, time_range=TimeRange.ALL)
    assert FileMeta.from_json(widest.to_json()) == widest
