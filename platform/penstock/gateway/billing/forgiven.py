"""Counts failures that callers caused until the ledger stores them: error budgets exclude them.

Trade-off: counts are stored, not rows. A dead gateway's unreported counts are charged to the platform. A count stored
twice, because a commit's answer was lost, can't exclude more than that hour's rows.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial

from penstock.domain.clock import Clock
from penstock.domain.ids import VersionId
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import Forgiven, hour_of
from penstock.gateway.calls.call import Admitted, Answer


class ForgivenEnds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[tuple[int, VersionId, Outcome]] = Counter()

    def closed(self, call: Admitted, answer: Answer) -> None:
        """Count a request with a ledger row once its failure is known to be the caller's; copies don't count."""
        outcome = answer.outcome
        if call.copy is not None or not outcome.spends_error_budget:
            return
        call.tell_outcome(answer, partial(self._told, (hour_of(self._clock.now()), call.version.id, outcome)))

    def take(self) -> tuple[Forgiven, ...]:
        counts, self._counts = self._counts, Counter()
        return tuple(Forgiven(hour=h, version=v, outcome=o, requests=n) for (h, v, o), n in counts.items())

    def put_back(self, ends: Iterable[Forgiven]) -> None:
        for one in ends:
            self._counts[one.hour, one.version, one.outcome] += one.requests

    def _told(self, end: tuple[int, VersionId, Outcome], found: Outcome) -> None:
        if not found.spends_error_budget:
            self._counts[end] += 1
