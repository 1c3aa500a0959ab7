"""How far each objective was met in a window, by the same events that its alerts count."""

from functools import partial

from penstock.diagnosis.distribution import total
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.snapshot import FEW, KeptPromise
from penstock.domain.serving.slo import Objective, SloTier
from penstock.slo.indicators import Selection, measure


def kept(recording: Recording, tier: SloTier) -> tuple[KeptPromise, ...]:
    return tuple(_kept(recording, tier, objective) for objective in tier.objectives)


def _kept(recording: Recording, tier: SloTier, objective: Objective) -> KeptPromise:
    counted = measure(tier.tier.value, objective)
    count = partial(_count, recording)
    events = count(counted.events)
    bad = counted.bad_count(count, events)
    return KeptPromise(
        tier=tier.tier.value,
        indicator=objective.indicator,
        promised_ratio=objective.good_ratio,
        within_s=objective.within_s,
        good_ratio=None if events is None or bad is None or events < FEW else _share(events - bad, events),
        events=events or 0.0,
    )


def _share(part: float, whole: float) -> float:
    """Return a share within 0 and 1: counters of one page are read at slightly different times."""
    return min(1.0, max(0.0, part / whole))


def _count(recording: Recording, selection: Selection) -> float | None:
    found = recording.increases.get(selection.series, ())
    return total(one for one in found if selection.takes(selection.series, one.labels))
