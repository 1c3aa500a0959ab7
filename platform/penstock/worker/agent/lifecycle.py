"""A worker's life as a pure state machine: transitions, phase durations, expected readiness.

This module knows neither processes nor HTTP; time is an argument.
"""

from collections.abc import Mapping

from penstock.domain.fleet.worker import PhaseTiming, WorkerEnd, WorkerState

_START = (
    WorkerState.FETCHING,
    WorkerState.VERIFYING,
    WorkerState.LOADING,
    WorkerState.COMPILING,
    WorkerState.WARMING,
)
"""The phases of a start, in order. An engine in eager mode does not compile."""

_WAKE = (WorkerState.WAKING, WorkerState.WARMING)
"""The phases of a wake: the first verifies the files and restarts the engine."""

_FIRST = frozenset({WorkerState.FETCHING, WorkerState.VERIFYING, WorkerState.WAKING})
"""First phases: verifying if nothing must be fetched, waking for an existing worker."""

_ENDINGS = frozenset({WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED})
_AFTER: dict[WorkerState, frozenset[WorkerState]] = {
    WorkerState.FETCHING: frozenset({WorkerState.VERIFYING}) | _ENDINGS,
    WorkerState.VERIFYING: frozenset({WorkerState.FETCHING, WorkerState.LOADING, WorkerState.SLEEPING}) | _ENDINGS,
    WorkerState.LOADING: frozenset({WorkerState.VERIFYING, WorkerState.COMPILING, WorkerState.WARMING}) | _ENDINGS,
    WorkerState.COMPILING: frozenset({WorkerState.VERIFYING, WorkerState.WARMING}) | _ENDINGS,
    WorkerState.WARMING: frozenset({WorkerState.VERIFYING, WorkerState.READY}) | _ENDINGS,
    WorkerState.READY: frozenset({WorkerState.VERIFYING, WorkerState.SLEEPING}) | _ENDINGS,
    WorkerState.SLEEPING: frozenset({WorkerState.READY, WorkerState.WAKING, WorkerState.VERIFYING}) | _ENDINGS,
    WorkerState.WAKING: frozenset({WorkerState.VERIFYING, WorkerState.WARMING}) | _ENDINGS,
    WorkerState.DRAINING: frozenset({WorkerState.STOPPED, WorkerState.FAILED}),
    WorkerState.STOPPED: frozenset(),
    WorkerState.FAILED: frozenset(),
}
"""The permitted transitions: a damaged copy is fetched again; files are verified before each engine start. A worker
ordered to sleep may be ordered to serve again before its streams have ended. A failed wake counts as a failed start.
"""

LEAST_WAIT_S = 0.5
"""The shortest predicted wait."""
LATE_SHARE = 0.25
"""An overdue phase is expected to take this share of its elapsed time again: otherwise callers would all return too
early.
"""


class Life:
    def __init__(self, now: float, expected_s: Mapping[WorkerState, float] | None = None) -> None:
        self.state = WorkerState.FETCHING
        self.detail = ""
        self.restarts = 0
        self.holds_memory = True
        """False where it sleeps and its engine's memory is given back."""
        self.end: WorkerEnd | None = None
        self._since = now
        self._expected_s = dict(expected_s or {})
        self._took_s: dict[WorkerState, float] = {}
        self._again_s: dict[WorkerState, float] = {}
        self._repeated_s = 0.0
        self._order: tuple[WorkerState, ...] = _START
        self.awaited_s = 0.0
        self.restart_s = 0.0
        """What the last start took of what a next one here would take: it fetches nothing, and its parent is there."""

    def enter(self, state: WorkerState, now: float, detail: str = "") -> PhaseTiming | None:
        """Return the ended phase's duration, None if the last state was no phase of a start."""
        if state not in _AFTER[self.state]:
            raise ValueError(f"a worker can't go from {self.state} to {state}")
        left, seconds = self.state, now - self._since
        self.state, self.detail, self._since = state, detail, now
        self.holds_memory = state is not WorkerState.SLEEPING or left is WorkerState.READY
        if not _is_progress(left, state):
            return None
        self._took_s[left] = seconds
        self._repeat(left, state, seconds)
        return PhaseTiming(phase=left, seconds=seconds)

    def awaited(self, seconds: float) -> None:
        """Seconds of waiting for the parent's imports, which all engines share."""
        self.awaited_s = seconds

    def _repeat(self, left: WorkerState, state: WorkerState, seconds: float) -> None:
        if left in _FIRST:
            self._order = _WAKE if left is WorkerState.WAKING else _START
        has_waited = left in (WorkerState.LOADING, WorkerState.WAKING)
        again_s = max(0.0, seconds - self.awaited_s) if has_waited else seconds
        self._again_s[left] = again_s
        self._repeated_s = again_s + (self._repeated_s if left not in _FIRST else 0.0)
        if state is WorkerState.READY:
            self.restart_s = self._repeated_s

    def gave_back(self) -> None:
        """Estimate a wake's duration if a restart's is unknown."""
        self.holds_memory = False
        self.restart_s = self.restart_s or self._expected_wake_s(self._expected_s)

    def will_end(self, why: WorkerEnd) -> None:
        self.end = self.end or why

    def say(self, detail: str) -> None:
        self.detail = detail

    @property
    def phases(self) -> tuple[PhaseTiming, ...]:
        """The last start's, in order; a wake has its own."""
        known = (phase for phase in self._order if phase in self._took_s)
        return tuple(PhaseTiming(phase=phase, seconds=self._took_s[phase]) for phase in known)

    @property
    def took_s(self) -> Mapping[WorkerState, float]:
        return self._took_s

    def seconds_in_state(self, now: float) -> float:
        return now - self._since

    def ready_in_s(self, now: float) -> float:
        """Seconds of the last start; 0 if ready, ending, or unknown."""
        expected = {**self._expected_s, **self._again_s}
        expected.setdefault(WorkerState.WAKING, self._expected_wake_s(expected, but=WorkerState.WARMING))
        if not self.state.is_starting or not expected.get(self.state):
            return 0.0
        order = _WAKE if self.state is WorkerState.WAKING else _START
        later = order[order.index(self.state) + 1 :]
        rest_s = sum(expected.get(phase, 0.0) for phase in later)
        so_far_s = self.seconds_in_state(now)
        left_s = expected[self.state] - so_far_s
        return max(LEAST_WAIT_S, (left_s if left_s > 0.0 else LATE_SHARE * so_far_s) + rest_s)

    @staticmethod
    def _expected_wake_s(expected: Mapping[WorkerState, float], but: WorkerState | None = None) -> float:
        return sum([s for phase, s in expected.items() if phase in _START[1:] and phase is not but])


def _is_progress(left: WorkerState, state: WorkerState) -> bool:
    order = (*(_WAKE if left is WorkerState.WAKING else _START), WorkerState.READY)
    return left in order[:-1] and state in order and order.index(state) > order.index(left)
