"""How files are to be arranged: the numbers that a plan obeys.

- Files belong to windows of time and are merged within one. The length of windows is the table's option, else chosen
  once and remembered in the manifest: to choose again would rewrite everything.
- Within a window files are merged when there are `files_min` of them and the result is `growth_min` times as large as
  the largest. So a row is rewritten about log(size of a window / size of a flush) times, however small flushes are,
  and there are a few files of every size.
- During a load, when files come within seconds of each other, twice as many are awaited: fewer rows are rewritten while
  every processor is needed, and the end of the load is near or there are soon enough.
- In a region that is not written to at the moment, files of a window that overlap in time are merged as soon as there
  are two and the smaller is half as large as the larger: they may have rows of the same key, which every query would
  have to merge. What grows by half each time is rewritten nine times on the way from 16 MiB to 512 MiB.
- A window that is not the newest and got no file for an hour is tidied up with smaller numbers: few of them are ever
  written to again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tsdb.engine.manifest import FileMeta
from tsdb.model import RegionOptions, RegionSchema
from tsdb.units import Size

FILES_MIN = 4
"""How many files are worth a merge, unless `compaction.twcs.trigger_file_num` says otherwise."""
FAN_IN_MAX = 32
"""How many files one merge reads at most, or `trigger_file_num` if that is more: each takes memory."""
OUTPUT_BYTES_MAX = Size.parse("512MiB")
"""How large the files of a merge may be together, unless `compaction.twcs.max_output_file_size` says otherwise."""
QUIET_MS = 3_600_000
"""How long a window must have got no file to be tidied up."""
LOAD_MS = 30_000
"""A region is being loaded if `files_min` files of a window were written within this time."""

_GROWTH_MIN = 3.0
_IDLE_GROWTH_MIN = 1.5
_QUIET_FILES_MIN = 2
_QUIET_GROWTH_MIN = 1.33
_HOUR = 3600
_WINDOWS = (_HOUR, 2 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR)
"""The lengths of windows to choose from, in seconds."""
_SHORTEST = 24 * _HOUR
_PER_TTL = 4
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What a plan obeys."""

    window_ticks: int
    """In the unit of the time column."""
    files_min: int = FILES_MIN
    growth_min: float = _GROWTH_MIN
    output_bytes_max: int = OUTPUT_BYTES_MAX
    fan_in_max: int = FAN_IN_MAX
    load_files_min: int = 0
    """How many files are worth a merge during a load, if that is more."""
    memory_bytes_max: int = 128 << 20
    """What the inputs of one merge may take in memory, if they are more than `files_min`."""

    def idle(self) -> Policy:
        """Return what holds for files that overlap in a region that is not written to at the moment."""
        return replace(self, files_min=2, growth_min=min(self.growth_min, _IDLE_GROWTH_MIN))

    def quiet(self) -> Policy:
        """Return what holds in a window that is not written to any more."""
        files_min, growth_min = min(self.files_min, _QUIET_FILES_MIN), min(self.growth_min, _QUIET_GROWTH_MIN)
        return replace(self, files_min=files_min, growth_min=growth_min)

    def forced(self) -> Policy:
        """Return the policy of a requested compaction: everything that can be merged is."""
        return replace(self, files_min=2, growth_min=1.0, load_files_min=0)


def policy_of(options: RegionOptions, window_ticks: int, *, memory_bytes_max: int) -> Policy:
    """Return the policy of a region."""
    files_min = max(2, options.compaction_trigger_files or FILES_MIN)
    return Policy(
        window_ticks=window_ticks,
        files_min=files_min,
        # As many files of one size always grow by more than this.
        growth_min=min(_GROWTH_MIN, 0.75 * files_min),
        output_bytes_max=options.compaction_output_bytes or OUTPUT_BYTES_MAX,
        fan_in_max=max(FAN_IN_MAX, files_min),
        load_files_min=0 if options.compaction_trigger_files else 2 * files_min,
        memory_bytes_max=memory_bytes_max,
    )


def choose_window(options: RegionOptions, schema: RegionSchema, files: Iterable[FileMeta]) -> int:
    """Choose how long the windows of a region are, in seconds, from the files it has.

    A day, or a week if a file spans more than a day. Rows with a time to live leave by whole files: then windows are so
    short that no more than about a quarter of that time is kept in vain.
    """
    longest = max((meta.time_range.end - meta.time_range.start for meta in files), default=0)
    seconds = -(-longest // schema.ticks_per_second)
    window = next((each for each in _WINDOWS if each >= max(seconds, _SHORTEST)), _WINDOWS[-1])
    if options.ttl:
        lasting = options.ttl // _NS // _PER_TTL
        window = max((each for each in _WINDOWS if each <= min(window, lasting)), default=_WINDOWS[0])
    return window
