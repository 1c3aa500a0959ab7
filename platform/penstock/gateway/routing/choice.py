"""What is kept of a pick: the workers that were compared, with what told for and against each. Pure.

Trade-off: of many the best ``MOST_KEPT`` alone, for each costs half a microsecond of a request.
"""

from collections.abc import Sequence

from penstock.domain.ids import WorkerId
from penstock.domain.serving.request_record import Choice, Considered
from penstock.gateway.routing.scorers import Candidate

MOST_KEPT = 6


def of(chosen: WorkerId, among: Sequence[Candidate], scores: Sequence[float], *, serving: int, met: int) -> Choice:
    """Return the pick of ``chosen``: of so many that serve, of which the request has ``met`` some before."""
    if not scores:
        return Choice(chosen, serving, met, len(among), (_kept(among[0], None),))
    ranked = sorted(zip(scores, among, strict=True), key=lambda one: -one[0])
    best = ranked[:MOST_KEPT]
    if all(one.entry.id != chosen for _, one in best):  # chance takes any of those that are as good
        best[-1] = next(pair for pair in ranked if pair[1].entry.id == chosen)
    return Choice(chosen, serving, met, len(among), tuple(_kept(one, score) for score, one in best))


def _kept(one: Candidate, score: float | None) -> Considered:
    return Considered(one.entry.id, score, one.work_tokens, one.cached_tokens, one.kv_used_ratio, one.wait_s)
