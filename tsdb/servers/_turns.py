"""Which steps may run: the decisions of the scheduler, without threads and clocks.

    waiting ─▶ slot ─▶ end                                a step that is soon done
               slot ─▶ evicted ─▶ paused ─▶ slot or the long permit ─▶ …      one that is not
               slot ─▶ none, while it waits for others ─▶ slot                a query that waits for a worker, say
               slot ─▶ away, while it waits for another node ─▶ paused ─▶ …   one that a datanode keeps waiting

- A step begins in the order of its arrival, on one of `slots` slots. A lane is the steps of one protocol; no more than
  `at_once_max` of them have begun and not ended, without those that are away. When one of these comes back, there may
  be more for a while: none begins until there are fewer.
- While steps are short on average, one begins beside another only when that has run for `lead_seconds`, so that most
  run one after the other: two threads that both want the interpreter lock take longer than one that has it.
- A step that has held its slot for a slice loses it as soon as another step waits. It is long from then on: it runs
  to its next checkpoint, and pauses there until it gets a slot that no short step wants, or the long permit. The permit
  goes from one long step to the next, so that one of them always makes progress, however many short ones come.
- No step waits for a cooperative one: a slot is lost by the clock alone. While many long steps have not reached a
  checkpoint yet, the slice is longer, so that not all of them run at once.

Times are seconds of any clock that does not go back. Not safe for threads: the scheduler has the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

SLICE_SECONDS = 0.05
"""How long a step may hold its slot while others wait."""
WAITING_MAX = 1024
"""How many steps may wait for their first slot."""
AWAY_MAX = 128
"""How many steps of a lane may wait for other nodes: each of them has a thread."""
LEAD_SECONDS = 0.0015
"""How long a step must have run until the next one begins beside it, while steps are short."""
SHORT_SECONDS = 0.0025
"""Steps are short if they take less CPU time on average, as those of small queries do."""
_SLICES_MAX = 8
"""How many times as long a slice gets while long steps have not paused yet."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How many steps run, and for how long."""

    slots: int
    slice_seconds: float = SLICE_SECONDS
    waiting_max: int = WAITING_MAX
    away_max: int = AWAY_MAX
    lead_seconds: float = 0.0


class Hold(Enum):
    """What allows a step to run."""

    NONE = 0
    SLOT = 1
    PERMIT = 2


class Turn:
    """One step, from its arrival to its end."""

    __slots__ = ("away", "hold", "is_ended", "is_long", "is_overdue", "lane", "queued_at", "since")

    def __init__(self, lane: Lane, queued_at: float) -> None:
        self.lane = lane
        self.queued_at = queued_at
        self.hold = Hold.NONE
        self.since = queued_at
        """Since when it has what it holds."""
        self.is_long = False
        self.is_overdue = False
        """Whether it has lost its slot and goes on to its next checkpoint."""
        self.away = 0
        """How many of its threads wait for other nodes."""
        self.is_ended = False


class Lane:
    """The steps of one protocol."""

    def __init__(self, at_once_max: int) -> None:
        self.at_once_max = at_once_max
        self.begun = 0
        self.away = 0
        """Steps that have begun and wait for other nodes."""
        self.waiting: deque[Turn] = deque()


class Turns:
    """All steps of a server that wait or have begun."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._lanes: list[Lane] = []
        self._free = limits.slots
        self._has_permit = True
        self._holders: list[Turn] = []
        """Steps on slots, the first to get one first."""
        self._returning: deque[Turn] = deque()
        """Short steps that have waited for others and want to go on."""
        self._paused: deque[Turn] = deque()
        self._overdue = 0
        self.are_short = True
        """Whether steps take so little time that they are better run one after the other."""
        self.waiting = 0
        """Steps that have not begun."""
        self.running = 0
        """Steps that use a core, as far as it is known."""
        self.away = 0
        """Steps that wait for other nodes."""

    def add_lane(self, at_once_max: int) -> Lane:
        lane = Lane(at_once_max)
        self._lanes.append(lane)
        return lane

    def remove_lane(self, lane: Lane) -> list[Turn]:
        """Forget a lane, any number of times; returns the steps that will not begin."""
        if lane in self._lanes:
            self._lanes.remove(lane)
        dropped, lane.waiting = list(lane.waiting), deque()
        self.waiting -= len(dropped)
        return dropped

    @property
    def has_lanes(self) -> bool:
        return bool(self._lanes)

    def has(self, lane: Lane) -> bool:
        return lane in self._lanes

    def forget(self, is_unwanted: Callable[[Turn], bool]) -> None:
        """Drop steps that wait and will not begin."""
        for lane in self._lanes:
            lane.waiting = deque(turn for turn in lane.waiting if not is_unwanted(turn))
        self.waiting = sum(len(lane.waiting) for lane in self._lanes)

    # The life of a step -----------------------------------------------------------------------------------------------

    def add(self, turn: Turn) -> None:
        """A step has arrived in its lane."""
        turn.lane.waiting.append(turn)
        self.waiting += 1

    def begin_next(self, now: float) -> Turn | None:
        """Begin the step that has waited longest, if there is a slot for it."""
        lane = self._next_lane()
        if lane is None or self._returning or self._is_led(now) or not self._has_slot(now):
            return None
        turn = lane.waiting.popleft()
        self.waiting -= 1
        lane.begun += 1
        self._give_slot(turn, now)
        return turn

    def go_on(self, now: float) -> Iterator[Turn]:
        """Yield the steps that continue now: returning ones first, long ones if no other step wants the slot."""
        while self._returning and self._has_slot(now):
            self._give_slot(turn := self._returning.popleft(), now)
            yield turn
        while self._paused and (self._has_permit or (self._free and self._next_lane() is None)):
            turn = self._paused.popleft()
            if self._has_permit:
                self._has_permit = False
                self._run(turn, Hold.PERMIT, now)
            else:
                self._give_slot(turn, now)
            yield turn

    @property
    def has_resting(self) -> bool:
        """Whether steps that have begun wait to go on."""
        return bool(self._returning or self._paused)

    def must_pause(self, turn: Turn, now: float) -> bool:
        """Return whether a step is to pause at its checkpoint."""
        if not turn.is_long:
            return False
        if turn.hold is Hold.NONE:
            return True
        is_wanted = bool(self._paused) or (turn.hold is Hold.SLOT and self._next_lane() is not None)
        return is_wanted and now - turn.since >= self._limits.slice_seconds

    def stop(self, turn: Turn) -> None:
        """Take from a step what it holds: it waits for something, or is not counted any more."""
        if turn.hold is Hold.SLOT:
            self._holders.remove(turn)
            self._free += 1
        elif turn.hold is Hold.PERMIT:
            self._has_permit = True
        self._end_overdue(turn)
        self.running -= turn.hold is not Hold.NONE
        turn.hold = Hold.NONE

    def wait(self, turn: Turn) -> None:
        """Let a step that holds nothing wait until it may go on."""
        (self._paused if turn.is_long else self._returning).append(turn)

    def withdraw(self, turn: Turn) -> None:
        """Let a step wait no longer."""
        (self._paused if turn.is_long else self._returning).remove(turn)

    def may_leave(self, turn: Turn) -> bool:
        """Return whether a step may wait for another node beside those that do."""
        return turn.away > 0 or turn.lane.away < self._limits.away_max

    def leave(self, turn: Turn, *, is_own: bool) -> None:
        """A thread of a step waits for another node. If it is its own, the step uses no core."""
        turn.away += 1
        if turn.away == 1:
            self._count_away(turn, +1)
        if is_own:
            self.stop(turn)
            turn.is_long = True

    def come_back(self, turn: Turn, *, is_own: bool) -> None:
        """A thread of a step goes on; if it is its own, to the next checkpoint, where it pauses as a long step does."""
        turn.away -= 1
        if turn.away == 0 and not turn.is_ended:
            self._count_away(turn, -1)
        if is_own:
            self._let_go_on_overdue(turn)

    def end(self, turn: Turn) -> None:
        """A step that had begun has ended."""
        self.stop(turn)
        if turn.away:
            self._count_away(turn, -1)
        turn.is_ended = True
        turn.lane.begun -= 1

    def _count_away(self, turn: Turn, change: int) -> None:
        turn.lane.away += change
        turn.lane.begun -= change
        self.away += change

    # Slots ------------------------------------------------------------------------------------------------------------

    @property
    def startable(self) -> int:
        """How many steps could begin on free slots, without waiting for the lead of one that runs."""
        if not self.waiting or not self._free or (self._holders and self._lead):
            return 0
        most = 1 if self._lead else self._free
        return min(most, sum(min(len(lane.waiting), lane.at_once_max - lane.begun) for lane in self._lanes))

    def due(self) -> float | None:
        """Return when a step that waits may begin beside another one or take its slot; None if none waits for that."""
        if not self._holders or self._next_lane() is None:
            return None
        if self._free:
            return self._holders[-1].since + self._lead if self._lead else None
        return self._holders[0].since + self._slice()

    def _slice(self) -> float:
        return self._limits.slice_seconds * min(1 + self._overdue // self._limits.slots, _SLICES_MAX)

    @property
    def _lead(self) -> float:
        return self._limits.lead_seconds if self.are_short else 0.0

    def _is_led(self, now: float) -> bool:
        """Return whether the last step to begin has not run for long enough for another one beside it."""
        return bool(self._holders) and now - self._holders[-1].since < self._lead

    def _has_slot(self, now: float) -> bool:
        """Return whether a slot is free, after the oldest holder has lost its own if its slice is over."""
        if not self._free and self._holders and now - self._holders[0].since >= self._slice():
            turn = self._holders[0]
            self.stop(turn)
            turn.is_long = True
            self._let_go_on_overdue(turn)
        return self._free > 0

    def _let_go_on_overdue(self, turn: Turn) -> None:
        turn.is_overdue = True
        self._overdue += 1
        self.running += 1  # until its next checkpoint

    def _next_lane(self) -> Lane | None:
        """Return the lane of the step that has waited longest among those that may begin."""
        found: Lane | None = None
        if not self.waiting:
            return None
        for lane in self._lanes:
            may_begin = lane.waiting and lane.begun < lane.at_once_max
            if may_begin and (found is None or lane.waiting[0].queued_at < found.waiting[0].queued_at):
                found = lane
        return found

    def _give_slot(self, turn: Turn, now: float) -> None:
        self._free -= 1
        self._holders.append(turn)
        self._run(turn, Hold.SLOT, now)

    def _run(self, turn: Turn, hold: Hold, now: float) -> None:
        turn.hold, turn.since = hold, now
        self.running += 1

    def _end_overdue(self, turn: Turn) -> None:
        if turn.is_overdue:
            turn.is_overdue = False
            self._overdue -= 1
            self.running -= 1
