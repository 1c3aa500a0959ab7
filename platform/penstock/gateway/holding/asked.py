"""Counts what is asked of each version, by standing: the counters of a gateway's reports to the controllers.

A request counts when its quota is reserved, for the version that it is sent to: refusals for want of capacity are
demand, refusals by limits are none.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.domain.fleet.demand import Counted
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator, SloTier
from penstock.domain.tenancy.standing import Standing
from penstock.gateway.calls.call import Admitted, Answer, Call

KEPT_REPORTS = 120
"""Reports without a change after which a version's counters are dropped: longer than any window of the controller."""


Key = tuple[VersionId, Standing]


@dataclass(slots=True)
class Asked:
    tiers: Mapping[Tier, SloTier]
    clock: Callable[[], float]
    """Monotonic seconds."""
    _counters: dict[Key, Counter[str]] = field(default_factory=dict)
    """The counters of ``Counted`` by name."""
    _unchanged: Counter[Key] = field(default_factory=Counter)
    """Reports since the last change."""

    def came(self, call: Admitted) -> None:
        counters = self._of(call)
        counters["requests"] += 1
        counters["prompt_tokens"] += call.cost.prompt_tokens
        counters["output_tokens"] += call.lease.expected_output

    def ended(self, call: Call, answer: Answer) -> None:
        if not isinstance(call, Admitted):
            return
        counters, usage = self._of(call), answer.usage
        counters["read_tokens"] += usage.prompt_tokens
        counters["cached_tokens"] += usage.cached_tokens
        is_late = self._is_late(call, answer)
        if is_late is not None:
            counters["answered"] += 1
            counters["late"] += is_late

    def counted(self) -> tuple[Counted, ...]:
        """Drops counters that did not change for long."""
        self._unchanged.update(self._counters.keys())
        for key in [key for key, reports in self._unchanged.items() if reports > KEPT_REPORTS]:
            del self._counters[key], self._unchanged[key]
        return tuple(
            Counted(version=version, standing=standing, **counters)
            for (version, standing), counters in self._counters.items()
        )

    def _of(self, call: Admitted) -> Counter[str]:
        key = (call.version.base or call.version.id, call.standing)
        self._unchanged[key] = 0
        counters = self._counters.get(key)
        if counters is None:
            counters = self._counters[key] = Counter()
        return counters

    def _is_late(self, call: Admitted, answer: Answer) -> bool | None:
        if answer.outcome is Outcome.DEADLINE:
            return True
        tier = self.tiers[call.slo]
        if call.request.stream and answer.ttft_s is not None and (within_s := tier.within_s(Indicator.TTFT)):
            return answer.ttft_s > within_s
        if answer.outcome is Outcome.OK and (within_s := tier.within_s(Indicator.LATENCY)):
            return self.clock() - call.received_at > within_s
        return None
