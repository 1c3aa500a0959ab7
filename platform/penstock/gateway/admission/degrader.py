"""Decides whether and how a request is degraded: for tenants that opted in, at versions under pressure.

Pressure is the wait at the least busy worker, with hysteresis. Trade-off: callers don't alternate between long and
short answers, but after a peak some are degraded without need.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Degradation
from penstock.domain.serving.request import InferenceRequest
from penstock.gateway.admission import degrade
from penstock.gateway.calls.call import Chosen


class Crowd(Protocol):
    def wait_s(self, version: VersionEntry) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureSettings:
    enter_s: float
    """The tier's TTFT objective: a wait this long has missed it already."""
    leave_share: float = 0.5
    calm_s: float = 5.0


class Pressure:
    __slots__ = ("_calm_since", "_settings", "is_on")

    def __init__(self, settings: PressureSettings) -> None:
        self._settings = settings
        self._calm_since: float | None = None
        self.is_on = False

    def look(self, wait_s: float, now: float) -> bool:
        ours = self._settings
        if wait_s >= ours.enter_s:
            self.is_on, self._calm_since = True, None
        elif wait_s > ours.enter_s * ours.leave_share:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= ours.calm_s:
            self.is_on = False
        return self.is_on


@dataclass(slots=True, kw_only=True)
class PressureDegrader:
    """``enter_s`` is each tier's TTFT objective, 0 for none; ``report`` gets each version's state."""

    crowd: Crowd
    clock: Clock
    enter_s: Mapping[Tier, float]
    report: Callable[[VersionId, bool], None]
    _pressures: dict[VersionId, Pressure] = field(default_factory=dict)

    def look(self, versions: Iterable[VersionEntry]) -> None:
        """Call it about twice a second. A version that has not served yet, or is scaled to 0, is under none."""
        now, before = self.clock.monotonic(), self._pressures
        self._pressures = {}
        for version in versions:
            enter_s, wait_s = self.enter_s.get(version.tier, 0.0), self.crowd.wait_s(version)
            if not enter_s or (wait_s == inf and (version.is_unwanted or version.id not in before)):
                continue
            pressure = before.get(version.id) or Pressure(PressureSettings(enter_s=enter_s))
            self.report(version.id, pressure.look(wait_s, now))
            self._pressures[version.id] = pressure
        for gone in before.keys() - self._pressures.keys():
            self.report(gone, False)  # noqa: FBT003  the port's own second word

    def capped(self, call: Chosen) -> InferenceRequest | None:
        plan = call.principal.plan
        if not plan.degrade_output_tokens or not (call.attempts.is_over_kv or self._is_pressed(call.version)):
            return None
        return degrade.capped(call.request, plan)

    def smaller(self, call: Chosen, *, refused: bool) -> InferenceRequest | None:
        wish = call.principal.plan.degrade_model
        if not wish or Degradation.SMALLER_MODEL in call.degraded:
            return None
        if not (refused or self._is_pressed(call.version) or self.crowd.wait_s(call.version) == inf):
            return None
        return replace(call.request, model=wish)

    def fits(self, call: Chosen, smaller: VersionEntry) -> bool:
        if not degrade.may_move(call.request, call.version, smaller):
            return False
        return not self._is_pressed(smaller) and self.crowd.wait_s(smaller) < inf

    def _is_pressed(self, version: VersionEntry) -> bool:
        pressure = self._pressures.get(version.id)
        return pressure is not None and pressure.is_on
