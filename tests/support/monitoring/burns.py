"""Stories of a burning error budget: for each rule of a promise, the smallest in which one fault of it would be seen.

A wrong threshold, a window too long or too short, a comparison or a label that reads the wrong thing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.slo import recorded
from penstock.slo.indicators import Measure, Selection
from penstock.slo.recorded import Promise
from penstock.slo.rule import Alert
from penstock.slo.windows import WindowPair, Windows, seconds

BASE_S = 300
SPARSE_S = 150
"""Where rules are evaluated seldom, counters are seen thus far apart, and only in the base window before."""
_STEPS_S = (15, 30, 60, SPARSE_S)
"""Distances of samples that divide the base window, so that its rates are exact."""
_WITH = re.compile(r"\{\{ with .*\{\{ end \}\}")
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
    """Return the distance of samples for rules with this interval of evaluation."""
    return max(step for step in _STEPS_S if every_s % step == 0)


def input_series(measure: Measure, stretches: Sequence[Stretch], every_s: int) -> list[dict[str, str]]:
    """Return the counters of this traffic, and those of strangers, for rules that are evaluated so often."""
    counted = _by_outcome(measure) if measure.bad is not None else _by_time(measure)
    return [{"series": name, "values": _values(stretches, rate, every_s)} for name, rate in counted]


def _values(stretches: Sequence[Stretch], rate: PerSecond, every_s: int) -> str:
    """Return a counter in promtool's notation, without samples that no evaluation would see."""
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
        *(
            (_one(events, outcome=one, tier="another"), lambda _: 100.0)
            for one in bad.labels["outcome"]
            if "tier" in events.labels
        ),
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


MARGIN = 0.12
"""So far beside a threshold a story stands: nearer than any mutant."""
Test = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens, how often rules are evaluated, and when an alert must speak and when not, in seconds."""

    name: str
    stretches: tuple[Stretch, ...]
    every_s: int
    fires_at: float | None = None
    silent_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of promtool, and how often its rules are evaluated."""

    every_s: int
    test: Test


def stories(promise: Promise, pair: WindowPair, windows: Windows) -> list[Story]:
    """Return what tells a right alert of this pair of windows from a wrong one."""
    return [
        *_threshold(promise, pair),
        _begins(promise, pair),
        *_ends(promise, pair, windows.now_ratio),
        *_quiet(pair, windows.least_bad_events),
        *_young(windows.least_bad_events),
    ]


def _threshold(promise: Promise, pair: WindowPair) -> list[Story]:
    long, bound = seconds(pair.long), promise.threshold(pair)
    lasts = 1.25 * long

    def always(bad_ratio: float) -> tuple[Stretch, ...]:
        return (Stretch(length_s=lasts, bad_ratio=bad_ratio),)

    return [
        Story(
            name="a little too fast", stretches=always((1 + MARGIN) * bound), every_s=pace(long / 12), fires_at=lasts
        ),
        Story(name="almost too fast", stretches=always((1 - MARGIN) * bound), every_s=pace(long / 12), silent_at=lasts),
    ]


def _begins(promise: Promise, pair: WindowPair) -> Story:
    """Twice too fast since a moment ago: the long window must wait until it has seen half of itself burn."""
    long, bound = seconds(pair.long), promise.threshold(pair)
    before, fierce = 1.3 * long, _fierce(bound)
    crossed = long * bound / fierce
    return Story(
        name="much too fast, since a moment ago",
        stretches=(Stretch(length_s=before), Stretch(length_s=1.4 * crossed, bad_ratio=fierce)),
        every_s=pace(long / 48),
        silent_at=before + 0.9 * crossed + BASE_S / 2,
        fires_at=before + 1.25 * crossed,
    )


def _ends(promise: Promise, pair: WindowPair, now_ratio: float) -> list[Story]:
    """Twice too fast, and over: the window of now must let go first, and the short one if it burns on a little."""
    bound = promise.threshold(pair)
    short = Slowing(name="much too fast, and slower", window=pair.short, fierce=_fierce(bound), bound=bound)
    if pair.now == pair.short:
        return [short.story(pair.short)]
    now_bound = now_ratio * bound
    now = Slowing(name="much too fast, and over", window=pair.now, fierce=_fierce(bound), bound=now_bound)
    return [
        now.story(pair.short),
        replace(short, after=(1 + MARGIN) * now_bound).story(pair.short),
        *_slows(promise, pair, now_bound),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowing:
    """A fault of which a window must let go when it has seen enough of the time after it."""

    name: str
    window: str
    fierce: float
    bound: float
    after: float = 0.0

    def story(self, short: str) -> Story:
        width, until = seconds(self.window), 2.2 * seconds(short)
        lag = 0 if self.window == recorded.BASE_WINDOW else BASE_S / 2
        crossed = width * (self.fierce - self.bound) / (self.fierce - self.after) + lag
        every_s = pace(width / 20)
        near = max(0.15 * width * self.bound / (self.fierce - self.after), 1.5 * every_s)
        return Story(
            name=self.name,
            stretches=(
                Stretch(length_s=until, bad_ratio=self.fierce),
                Stretch(length_s=1.5 * width, bad_ratio=self.after),
            ),
            every_s=every_s,
            fires_at=until + crossed - near,
            silent_at=until + crossed + near,
        )


def _slows(promise: Promise, pair: WindowPair, now_bound: float) -> list[Story]:
    """Twice too fast, and then a little above or below the pace of now, which has seen nothing else when asked."""
    until, every_s = 2.2 * seconds(pair.short), pace(seconds(pair.now) / 20)
    at = until + seconds(pair.now) + BASE_S + every_s

    def then(ratio: float) -> tuple[Stretch, ...]:
        fierce = Stretch(length_s=until, bad_ratio=_fierce(promise.threshold(pair)))
        return fierce, Stretch(length_s=at - until + every_s, bad_ratio=ratio)

    burns, over = (then((1 + off) * now_bound) for off in (MARGIN, -MARGIN))
    return [
        Story(name="slower, and still too fast", stretches=burns, every_s=every_s, fires_at=at),
        Story(name="slower, and slow enough", stretches=over, every_s=every_s, silent_at=at),
    ]


def _quiet(pair: WindowPair, least_bad_events: int) -> list[Story]:
    """All of a few requests are bad, now and then one: one too few in the long window to speak of, and enough."""
    long = seconds(pair.long)

    def few(share: float, lasts: float) -> tuple[Stretch, ...]:
        return (Stretch(length_s=lasts, per_s=share * least_bad_events / long, bad_ratio=1),)

    enough, too_few, every_s = 1.3 * long, 2.2 * long, pace(long / 36)
    return [
        Story(name="a few bad requests", stretches=few(1.15, enough), every_s=every_s, fires_at=enough),
        Story(name="too few bad requests", stretches=few(0.9, too_few), every_s=every_s, silent_at=too_few),
    ]


def _young(least_bad_events: int) -> list[Story]:
    """All of Prometheus' first requests are bad: one too few to speak of, and enough; at once, and with all summed."""

    def first(count: float) -> tuple[Stretch, ...]:
        return Stretch(length_s=BASE_S, per_s=count / BASE_S, bad_ratio=1), Stretch(length_s=BASE_S, per_s=0)

    enough, too_few = (first(share * least_bad_events) for share in (1.15, 0.9))
    return [
        story
        for at in (BASE_S, 1.8 * BASE_S)
        for story in (
            Story(name=f"few bad requests, the first of all, at {at:g} s", stretches=enough, every_s=30, fires_at=at),
            Story(name=f"too few, the first of all, at {at:g} s", stretches=too_few, every_s=30, silent_at=at),
        )
    ]


def _fierce(bound: float) -> float:
    return min(1.0, 2 * bound)


def told(measure: Measure, story: Story, alert: Alert) -> Case:
    """Return the story as a test of when this alert speaks."""
    checks = [(story.fires_at, True), (story.silent_at, False)]
    return _case(
        measure, story, promql_expr_test=[speaks(alert, story, at, fires) for at, fires in checks if at is not None]
    )


def said(measure: Measure, story: Story, alert: Alert, value: str = "", spent: str = "") -> Case:
    """Return the story as a test of what this alert says: its labels, and its annotations with these in words."""
    assert story.fires_at is not None
    return _case(measure, story, alert_rule_test=[_saying(alert, _on_grid(story, story.fires_at), value, spent)])


def _saying(alert: Alert, at: str, value: str = "", spent: str = "") -> Test:
    plain = alert.plain()
    annotations: Any = plain["annotations"]
    summary = _WITH.sub("", annotations["summary"]).replace("{{ $value | humanizePercentage }}", value)
    effect = _WITH.sub(spent, annotations["effect"])
    expected = {"exp_labels": plain["labels"], "exp_annotations": annotations | {"summary": summary, "effect": effect}}
    return {"eval_time": at, "alertname": alert.name, "exp_alerts": [expected]}


def steps_up(promise: Promise, measure: Measure) -> Case:
    """Return a test of what is read from the counters: half of the base window is old, half is new."""
    old, new = Stretch(length_s=5 * BASE_S, bad_ratio=0.1), Stretch(length_s=BASE_S / 2, per_s=30, bad_ratio=0.5)
    story = Story(name="traffic grows", stretches=(old, new), every_s=30)
    at = f"{old.length_s + new.length_s:g}s"
    seen = (
        about(promise.series(recorded.EVENTS), (old.per_s + new.per_s) / 2, at),
        about(promise.series(recorded.BAD_EVENTS), (old.bad_per_s + new.bad_per_s) / 2, at),
    )
    return _case(measure, story, promql_expr_test=list(seen))


def grows(promise: Promise, measure: Measure, window: str, mean: float = 0.2) -> Case:
    """Return a test of the share of bad events over a window, with ``mean`` or nearly; each other window would show
    another.

    If the rules record the rest of the budget, it is checked too.
    """
    width = seconds(window)
    every_s = pace(width / 24)
    parts = ((1.5, 0.25), (0.5, 0.5), (0.25, 1.0), (0.25, 2.0))
    stretches = tuple(Stretch(length_s=part * width, per_s=0.002, bad_ratio=bad * mean) for part, bad in parts)
    end = int(2.5 * width) // every_s * every_s
    seen = (end,) if window == recorded.BASE_WINDOW else range(end - width, end + 1, every_s)
    bad = sum(base_rate(stretches, lambda s: s.bad_per_s, at) for at in seen)
    share = bad / sum(base_rate(stretches, lambda s: s.per_s, at) for at in seen)
    checks = [about(promise.series(recorded.error_ratio(window)), share, f"{end}s")]
    if window == f"{promise.period_days}d":
        checks += [
            about(promise.series(recorded.BUDGET), promise.budget_ratio, f"{end}s"),
            about(promise.series(recorded.BUDGET_LEFT), 1 - share / promise.budget_ratio, f"{end}s"),
        ]
    story = Story(name=f"trouble grows, over {window}", stretches=stretches, every_s=every_s)
    return _case(measure, story, promql_expr_test=checks)


def falls_silent(measure: Measure, alert: Alert) -> list[Case]:
    """Return tests of an alert of lost data: not while there is some, after a quarter of an hour, for about a day."""
    lived, hold, day = 7200, 900, 86_400
    lost = lived + BASE_S
    story = Story(name="data is lost", stretches=(Stretch(length_s=lived),), every_s=BASE_S)
    times = {lived: False, lost + hold * 0.9: False, lost + hold * 1.6: True, lost + 0.9 * day: True}
    checks = [speaks(alert, story, at, fires) for at, fires in (times | {lost + 1.1 * day: False}).items()]
    saying = Story(name="data was lost", stretches=story.stretches, every_s=BASE_S, fires_at=lost + 2 * hold)
    return [_case(measure, story, promql_expr_test=checks), said(measure, saying, alert)]


def gateways_go(alert: Alert) -> list[Case]:
    """Return tests of an alert of a Prometheus that loses sight of all gateways; one forgets them after 5 minutes."""
    gone = 600 + BASE_S
    story = Story(name="no gateway is seen", stretches=(), every_s=15)
    times = {600: False, gone + 0.9 * 120: False, gone + 1.3 * 120: True}
    checks = [speaks(alert, story, at, fires) for at, fires in times.items()]
    series = [{"series": "penstock_routing_table_number", "values": "7x40"}]
    test = {"name": story.name, "interval": "15s", "input_series": series}
    return [
        Case(every_s=15, test=test | {"promql_expr_test": checks}),
        Case(every_s=15, test=test | {"alert_rule_test": [_saying(alert, f"{gone + 180}s")]}),
    ]


def about(expr: str, value: float, at: str) -> Test:
    """Return a check that an expression is about this."""
    return {
        "expr": f"sum(abs({expr} - ({value:.9g})) < bool {abs(value) * 0.04:.9g})",
        "eval_time": at,
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def speaks(alert: Alert, story: Story, at: float, fires: bool) -> Test:
    """Return a check of whether an alert fires at a time."""
    return {
        "expr": f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}})',
        "eval_time": _on_grid(story, at),
        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
    }


def _case(measure: Measure, story: Story, **checks: list[Test]) -> Case:
    series = input_series(measure, story.stretches, story.every_s)
    test = {"name": story.name, "interval": f"{step_s(story.every_s)}s", "input_series": series, **checks}
    return Case(every_s=story.every_s, test=test)


def _on_grid(story: Story, at: float) -> str:
    """Return the time of the last evaluation until then."""
    return f"{int(at) // story.every_s * story.every_s}s"
