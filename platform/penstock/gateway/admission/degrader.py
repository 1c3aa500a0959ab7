"""How a request is degraded: whose tenant opted in, whose version is under pressure, what may be done about it.

It joins the policies (``pressure``, ``degrade``) and changes nothing itself: the pipeline does. Nobody who has not
opted in is touched, or costs more than one look at a plan.
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
from penstock.gateway.admission.pressure import Pressure, PressureSettings
from penstock.gateway.calls.call import Chosen


class Crowd(Protocol):
    """Who knows how busy a version is."""

    def wait_s(self, version: VersionEntry) -> float:
        """Return the seconds of work that wait at its least busy worker; infinite where nobody would take a request."""
        ...


@dataclass(slots=True, kw_only=True)
class PressureDegrader:
    """Implements the pipeline's ``Degrader``; ``enter_s`` is each tier's promise of a first token, 0 for none.

    ``report`` is called for each version with whether it is under pressure.
    """

    crowd: Crowd
    clock: Clock
    enter_s: Mapping[Tier, float]
    report: Callable[[VersionId, bool], None]
    _pressures: dict[VersionId, Pressure] = field(default_factory=dict)

    def look(self, versions: Iterable[VersionEntry]) -> None:
        """Take in how busy these versions are, all there are; call it about twice a second."""
        now, before = self.clock.monotonic(), self._pressures
        self._pressures = {}
        for version in versions:
            enter_s = self.enter_s.get(version.tier, 0.0)
            if enter_s:
                pressure = before.get(version.id) or Pressure(PressureSettings(enter_s=enter_s))
                self.report(version.id, pressure.look(self.crowd.wait_s(version), now))
                self._pressures[version.id] = pressure
        for gone in before.keys() - self._pressures.keys():
            self.report(gone, False)  # noqa: FBT003  the port's own second word

    def capped(self, call: Chosen) -> InferenceRequest | None:
        """Return the request with its output capped, where its tenant opted in and its version is under pressure."""
        plan = call.principal.plan
        if not plan.degrade_output_tokens or not self._is_pressed(call.version):
            return None
        return degrade.capped(call.request, plan)

    def smaller(self, call: Chosen, *, refused: bool) -> InferenceRequest | None:
        """Return the request for the smaller model; ``refused``: the wished one has sent it away."""
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
