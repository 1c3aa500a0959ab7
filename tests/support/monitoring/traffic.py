"""Made-up traffic as input series of ``promtool test rules``: stretches of steady requests, counted as gateways do.

Beside the tier there is always another one, all of whose requests fail, and heavy traffic of outcomes that callers are
at fault for: a rule that read them would tell something else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.slo.indicators import Measure, Selection

BASE_S = 300
SPARSE_S = 150
"""Where rules are evaluated seldom, counters are seen thus far apart, and only in the base window before."""
_STEPS_S = (15, 30, 60, SPARSE_S)
"""Distances of samples that divide the base window, so that its rates are exact."""
PerSecond = Callable[["Stretch"], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Traffic that stays the same for a while: requests a second, and the share of them that is bad."""

    length_s: float
    per_s: float = 10.0
    bad_ratio: float = 0.0

    @property
    def bad_per_s(self) -> float:
        return self.per_s * self.bad_ratio


def pace(wished_s: float) -> int:
    """Return how often to evaluate rules, about so often: a multiple of how far apart samples are."""
    return max(_STEPS_S[0], int(wished_s) // _STEPS_S[1] * _STEPS_S[1])


def step_s(every_s: int) -> int:
    """Return how far apart samples are where rules are evaluated so often."""
    return max(step for step in _STEPS_S if every_s % step == 0)


def input_series(measure: Measure, stretches: Sequence[Stretch], every_s: int) -> list[dict[str, str]]:
    """Return the counters of this traffic, and those of strangers, for rules that are evaluated so often."""
    counted = _by_outcome(measure) if measure.bad is not None else _by_time(measure)
    return [{"series": name, "values": _values(stretches, rate, every_s)} for name, rate in counted]


def _values(stretches: Sequence[Stretch], rate: PerSecond, every_s: int) -> str:
    """Return a counter in promtool's notation; where no evaluation would see a sample, there is none."""
    step, end = step_s(every_s), sum(stretch.length_s for stretch in stretches)
    seen = [at for at in range(0, int(end) + 1, step) if -at % every_s <= BASE_S]
    written, last = [], -step
    for at in seen:
        missing = (at - last) // step - 1
        written += [f"_x{missing}"] * bool(missing) + [f"{_total(stretches, rate, at):.12g}"]
        last = at
    return " ".join(written)


def _by_outcome(measure: Measure) -> list[tuple[str, PerSecond]]:
    events, bad = measure.events, measure.bad
    assert bad is not None
    spread = len(bad.labels["outcome"])
    good = [one for one in events.labels["outcome"] if one not in bad.labels["outcome"]]
    return [
        *((_one(events, outcome=one), lambda s: s.per_s - s.bad_per_s) for one in good),
        *((_one(events, outcome=one), lambda s: s.bad_per_s / spread) for one in bad.labels["outcome"]),
        (_one(events, outcome="cancelled"), lambda _: 100.0),
        *((_one(events, outcome=one, tier="another"), lambda _: 100.0) for one in bad.labels["outcome"]),
    ]


def _by_time(measure: Measure) -> list[tuple[str, PerSecond]]:
    good = measure.good
    assert good is not None
    return [
        (_one(measure.events), lambda s: s.per_s),
        (_one(good), lambda s: s.per_s - s.bad_per_s),
        (_one(good, le="0.0"), lambda _: 0.0),
        (_one(good, le="+Inf"), lambda s: s.per_s),
        (_one(measure.events, tier="another"), lambda _: 100.0),
        (_one(good, tier="another"), lambda _: 0.0),
    ]


def _one(selection: Selection, **changed: str) -> str:
    """Return one series of a selection, with these labels in place of its own."""
    labels = {str(label): found[0] for label, found in selection.labels.items()} | changed
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{selection.series}{{{inside}}}"


def base_rate(stretches: Sequence[Stretch], rate: PerSecond, at: float) -> float:
    """Return what a rate over the base window tells at a time."""
    return (_total(stretches, rate, at) - _total(stretches, rate, at - BASE_S)) / BASE_S


def _total(stretches: Sequence[Stretch], rate: PerSecond, at: float) -> float:
    total, begin = 0.0, 0.0
    for stretch in stretches:
        total += rate(stretch) * min(max(at - begin, 0.0), stretch.length_s)
        begin += stretch.length_s
    return total
