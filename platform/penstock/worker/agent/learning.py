"""Learns the engine's curve from the steps that it serves.

Each time that the log has grown by half, the agent's process fits a new curve, which in the gate would delay tokens;
the gate predicts with it, and heartbeats report it.

Trade-off: a worker that sees few compositions of steps keeps its earlier curve.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.errors import InvalidField
from penstock.domain.models.curves import Curve, Origin, check
from penstock.domain.models.steps import Point, StepBatch
from penstock.steps.fit import fit, held_out

EVERY_S = 10.0
"""Seconds between looks at the log: a fit and its held-out error take a fifth of a second."""
GROWN = 1.5
"""Growth of the steps seen that makes a new fit: so few are made, and the first ones come early."""
FIRST_STEPS = 64


class LoggedSteps(msgspec.Struct, frozen=True):
    hardware: str = ""
    steps: int = 0
    disturbed: int = 0
    points: list[tuple[int, int, int, float, float]] = []


def read(told: Mapping[str, Any]) -> LoggedSteps:
    """Return an empty log if it can't be read."""
    try:
        return msgspec.convert(told, LoggedSteps)
    except msgspec.ValidationError:
        return LoggedSteps()


def points_of(told: LoggedSteps) -> list[Point]:
    return [Point(StepBatch(b, p, c, a), s) for b, p, c, a, s in told.points]


def curve_of(told: Mapping[str, Any], origin: Origin, now: float) -> Curve:
    """Raises ``InvalidField`` for too few or impossible points, or a busy machine."""
    return _curve(read(told), origin, now)


def _curve(told: LoggedSteps, origin: Origin, now: float) -> Curve:
    points = points_of(told)
    model, errors = fit(points), held_out(points)
    curve = Curve(
        model=model,
        hardware=told.hardware,
        measured_at=now,
        points=len({one.batch for one in points}),
        error_median=round(errors.median, 4),
        error_p90=round(errors.p90, 4),
        disturbed=round(told.disturbed / max(1, told.steps), 4),
        origin=origin,
    )
    return check(curve, now)


@dataclass(slots=True)
class Learning:
    clock: Clock
    curve: Curve | None = None
    _next: float = FIRST_STEPS
    _seen: int = 0
    _look_at: float = 0.0

    @property
    def is_due(self) -> bool:
        return self.clock.monotonic() >= self._look_at

    def stop(self) -> None:
        self._look_at = math.inf

    def look(self, told: Mapping[str, Any]) -> bool:
        """Fit if the log has grown enough; return whether there is a new curve."""
        self._look_at = self.clock.monotonic() + EVERY_S
        log = read(told)
        steps = log.steps
        if steps < self._seen:  # a measurement began it anew
            self._next = FIRST_STEPS
        self._seen = steps
        if steps < self._next:
            return False
        self._next = steps * GROWN
        try:
            curve = _curve(log, Origin.SERVED, self.clock.now())
        except InvalidField:
            return False
        self.curve = curve
        return True
