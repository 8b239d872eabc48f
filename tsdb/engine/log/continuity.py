"""Which regions lost entries to damage, and which can be proved not to have.

Entry ids of a region are dense. Reading the log in order, each frame of a region proves that nothing of that region was
lost since its frame before, if their ids are consecutive; a seal proves the same for all regions at once. So:

- A damaged payload under a valid header costs exactly that entry of that region.
- Bytes without a trusted header may have held entries of any region. A region is intact if the next thing known of it
  (frame, seal or drop marker) continues where it was before. If nothing more is known of it, nothing proves that it is.
- What an operator has given up is no loss: a gap is one only if something else is damaged there as well.
- Entries at or below a region's floor (what its manifest says is flushed) are not needed any more: losing them is no
  loss. That is decided last, because floors are known only when the manifests have been read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

UNKNOWN_LENGTH = 0


@dataclass(frozen=True, slots=True)
class Corruption:
    """Damage in a place that was durable. `length` is 0 where a whole segment is missing.

    `regions` are those that may have lost entries here, as far as the log alone can tell.
    """

    segment: int
    offset: int
    length: int
    reason: str
    regions: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"segment {self.segment:016x}"
        if self.length != UNKNOWN_LENGTH:
            where += f" bytes {self.offset} to {self.offset + self.length}"
        return f"{where}: {self.reason}"


class EntryRange(NamedTuple):
    """The first and the last entry of a region that the log holds."""

    first: int
    last: int


class _Gap(NamedTuple):
    """Entries above `after` and below `before` are not in the log. `cause` is the damage that may have held them."""

    after: int | None
    before: int
    cause: int | None

    @property
    def lost_last(self) -> int:
        return self.before - 1 if self.after is None else max(self.after, self.before - 1)


@dataclass(slots=True)
class _Track:
    last: int
    first: int | None
    damages_seen: int
    given_up_seen: int = 0
    gaps: list[_Gap] = field(default_factory=list)


class Continuity:
    """Takes what the log holds, in order, and answers for every region whether it is whole."""

    def __init__(self) -> None:
        self._tracks: dict[int, _Track] = {}
        self._corruptions: list[Corruption] = []
        self._untrusted: list[int] = []
        self._sealed_damages = 0
        self._dropped_damages: dict[int, int] = {}
        self._given_up = 0
        self._dropped_given_up: dict[int, int] = {}

    def see_frame(self, region_id: int, entry_id: int) -> None:
        """A sound frame."""
        track = self._tracks.get(region_id)
        if track is None:
            track = self._begin(region_id, before=entry_id)
        elif entry_id != track.last + 1 and not self._is_given_up(track, entry_id):
            track.gaps.append(_Gap(track.last, entry_id, self._cause(track)))
        if track.first is None:
            track.first = entry_id
        track.last = entry_id
        track.damages_seen, track.given_up_seen = len(self._untrusted), self._given_up

    def see_frames(self, region_id: int, first: int, last: int) -> None:
        """Sound frames of one region, from the first entry to the last."""
        self.see_frame(region_id, first)
        self._tracks[region_id].last = last

    def see_lost_frame(self, region_id: int, entry_id: int, corruption: Corruption) -> None:
        """A frame with a valid header and a damaged payload."""
        self._corruptions.append(corruption)
        track = self._tracks.get(region_id)
        if track is None:
            track = self._begin(region_id, before=entry_id)
        elif entry_id != track.last + 1:
            track.gaps.append(_Gap(track.last, entry_id, self._cause(track)))
        track.gaps.append(_Gap(entry_id - 1, entry_id + 1, len(self._corruptions) - 1))
        track.last = entry_id
        track.damages_seen = len(self._untrusted)

    def see_damage(self, corruption: Corruption) -> None:
        """Bytes, or whole segments, that may have held entries of any region."""
        self._untrusted.append(len(self._corruptions))
        self._corruptions.append(corruption)

    def see_given_up(self) -> None:
        """Bytes that may have held entries of any region, which nobody claims any more."""
        self._given_up += 1

    def see_harmless(self, corruption: Corruption) -> None:
        """Damage to something that holds no entries."""
        self._corruptions.append(corruption)

    def see_seal(self, last_entries: dict[int, int]) -> None:
        """The last entry of every region up to here."""
        for region_id, last in last_entries.items():
            track = self._tracks.get(region_id)
            if track is None:
                track = self._begin(region_id, before=last + 1)
            elif track.last != last:
                track.gaps.append(_Gap(track.last, last + 1, self._cause(track)))
            track.last = last
        self._sealed_damages = len(self._untrusted)

    def see_drop(self, region_id: int) -> None:
        """Everything of the region up to here is void."""
        self._tracks.pop(region_id, None)
        self._dropped_damages[region_id] = len(self._untrusted)
        self._dropped_given_up[region_id] = self._given_up

    def regions(self) -> dict[int, EntryRange]:
        """The regions of which the log holds entries."""
        return {
            region_id: EntryRange(track.first, track.last)
            for region_id, track in self._tracks.items()
            if track.first is not None
        }

    def last_entries(self) -> dict[int, int]:
        return {region_id: track.last for region_id, track in self._tracks.items()}

    @property
    def is_proved(self) -> bool:
        """No damage is left about which only later entries of a region could tell."""
        return len(self._untrusted) == self._sealed_damages

    def corruptions(self) -> tuple[Corruption, ...]:
        """All damage, each with the regions that it may have cost entries."""
        affected: dict[int, set[int]] = {}
        for region_id, track in self._tracks.items():
            causes = [gap.cause for gap in track.gaps if gap.after is not None or gap.lost_last > 0]
            for cause in (*causes, self._unproved(region_id)):
                if cause is not None:
                    affected.setdefault(cause, set()).add(region_id)
        return tuple(
            replace(corruption, regions=tuple(sorted(affected.get(index, ()))))
            for index, corruption in enumerate(self._corruptions)
        )

    def reason(self, region_id: int, floor: int) -> str | None:
        """Why entries of this region above `floor` may be lost; None if all of them are here."""
        track = self._tracks.get(region_id)
        for gap in track.gaps if track else ():
            if gap.lost_last > floor:
                return self._explain(gap, floor)
        unproved = self._unproved(region_id)
        if unproved is None:
            return None
        return f"nothing proves that the region lost no entry in {self._corruptions[unproved]}"

    def _begin(self, region_id: int, *, before: int) -> _Track:
        """First trace of a region: whatever came before must have been flushed."""
        seen, given_up_seen = self._dropped_damages.get(region_id, 0), self._dropped_given_up.get(region_id, 0)
        track = _Track(last=before, first=None, damages_seen=seen, given_up_seen=given_up_seen)
        if not self._is_given_up(track, before):
            track.gaps.append(_Gap(None, before, self._cause(track)))
        self._tracks[region_id] = track
        return track

    def _is_given_up(self, track: _Track, entry_id: int) -> bool:
        """Whether entries that are missing before this one can only have been in what is given up."""
        is_first = track.first is None and not track.gaps
        return (
            self._given_up > track.given_up_seen and (is_first or entry_id > track.last) and self._cause(track) is None
        )

    def _cause(self, track: _Track) -> int | None:
        """The first damage since the last known entry of the region."""
        return self._damage_since(track.damages_seen)

    def _unproved(self, region_id: int) -> int | None:
        """Damage behind which nothing more is known of the region."""
        track = self._tracks.get(region_id)
        return self._damage_since(track.damages_seen if track else self._dropped_damages.get(region_id, 0))

    def _damage_since(self, seen: int) -> int | None:
        return next(iter(self._untrusted[max(seen, self._sealed_damages) :]), None)

    def _explain(self, gap: _Gap, floor: int) -> str:
        if gap.after is not None and gap.before <= gap.after:
            return f"entry ids go back from {gap.after} to {gap.before}"
        first = max(floor, gap.after if gap.after is not None else floor) + 1
        lost = f"entry {first} is" if first == gap.lost_last else f"entries {first} to {gap.lost_last} are"
        if gap.cause is None:
            return f"{lost} missing although nothing is damaged: older segments are gone, or numbers were skipped"
        return f"{lost} lost in {self._corruptions[gap.cause]}"
