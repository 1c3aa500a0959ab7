"""Each generated rule on trial: with the rules that it reads and the stories that tell it from a wrong one."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from penstock.apps import slos
from penstock.slo import recorded, rules
from penstock.slo.indicators import Measure
from penstock.slo.recorded import Promise
from penstock.slo.rule import Alert, Group, RecordingRule
from penstock.slo.windows import DAY_S, WindowPair, Windows
from tests.support.monitoring import burns, promtool
from tests.support.monitoring.burns import Case

Rule = dict[str, Any]
Made = Callable[[int], Sequence[Rule]]
"""Rules as they are made to be evaluated every so many seconds: what they count depends on it."""
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?(?![\w.])")
"""A threshold, a bound or a budget; the ``3d`` of a window is none."""
BASE = (recorded.EVENTS, recorded.BAD_EVENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Rules as Prometheus reads them, which of them are on trial, and the tests that judge."""

    name: str
    made: Made
    accused: tuple[int, ...]
    cases: tuple[Case, ...]
    names: tuple[str, ...] = ()
    """What its promise is called: tier, objective and sentence."""

    @property
    def shape(self) -> str:
        """What the accused compute, without their promise's names and numbers: they stand or fall together.

        ``test_sloth.py`` holds the thresholds of any objective against Sloth's.
        """
        return self._nameless([{name: rule.get(name) for name in ("record", "expr", "for")} for rule in self._judged])

    @property
    def words(self) -> str:
        """The accused as they stand, without their promise's names and numbers."""
        return self._nameless(self._judged)

    @property
    def _judged(self) -> list[Rule]:
        return [self.made(pace)[place] for pace in self.paces for place in self.accused]

    def _nameless(self, rules: Sequence[Rule]) -> str:
        text = json.dumps(rules, default=str)
        for name in self.names:
            text = re.sub(rf"(?<![a-z_]){re.escape(name)}(?![a-z_])", "NAME", text)
        return _NUMBER.sub("N", text)

    @property
    def rules(self) -> Sequence[Rule]:
        return self.made(recorded.INTERVAL_S)

    @property
    def paces(self) -> list[int]:
        """How often rules are evaluated in its tests, the quickest test first."""
        return sorted({case.every_s for case in self.cases}, reverse=True)

    def write(self, folder: Path) -> list[Path]:
        """Write the rules and the test files, one for each pace and the quickest first, and return the latter."""
        folder.mkdir(parents=True)
        write_rules(folder, {pace: self.made(pace) for pace in self.paces})
        return [promtool.write(folder / f"every-{pace}.yaml", self._tests(pace)) for pace in self.paces]

    def _tests(self, pace: int) -> dict[str, object]:
        tests = [case.test for case in self.cases if case.every_s == pace]
        return {"rule_files": [rules_at(pace)], "evaluation_interval": f"{pace}s", "tests": tests}


def rules_at(pace: int) -> str:
    """Return the name of the file of the rules that are evaluated so often."""
    return f"rules-{pace}.yaml"


def write_rules(folder: Path, rules: Mapping[int, Sequence[Rule]]) -> None:
    """Write rules by their pace into the files that the tests of a trial read."""
    for pace, found in rules.items():
        promtool.write(folder / rules_at(pace), {"groups": [{"name": "trial", "rules": list(found)}]})


@cache
def all_trials() -> list[Trial]:
    """Return the trials of every rule that the platform's own promises make."""
    return [_unwatched(), *_of_promises(_promised())]


def of_each_shape() -> list[Trial]:
    """Return one trial of each shape."""
    return list({trial.shape: trial for trial in reversed(all_trials())}.values())


def of_each_wording() -> list[Trial]:
    """Return the first case of one trial of each wording: of an alert, that it fires and all that it says then."""
    found = {trial.words: trial for trial in reversed(all_trials())}
    return [replace(trial, cases=trial.cases[:1]) for trial in found.values()]


def of_one(name: str) -> list[Trial]:
    """Return those of one promise: ``slo-embedding-latency``."""
    return [trial for trial in all_trials() if trial.name.startswith(name)]


def _promised() -> list[Promise]:
    return [promise for tier in slos.load().values() for promise in rules.promises(tier)]


def _of_promises(promised: Iterable[Promise]) -> Iterator[Trial]:
    windows = slos.windows()
    return (trial for promise in promised for trial in of_promise(promise, windows))


def _unwatched() -> Trial:
    (alert,) = rules.UNWATCHED.rules
    assert isinstance(alert, Alert)
    cases = burns.gateways_go(alert)
    return Trial(name="slo-unwatched", made=lambda _: [alert.plain()], accused=(0,), cases=tuple(cases))


def of_promise(promise: Promise, windows: Windows) -> Iterator[Trial]:
    """Yield the trials of one promise's rules."""
    measure, period = promise.measure, f"{promise.period_days}d"
    assert isinstance(measure, Measure)
    court = Court(promise=promise, windows=windows)
    yield court.of_recordings("counters", BASE, BASE, [burns.steps_up(promise, measure)])
    for window in windows.lengths:
        ratio = recorded.error_ratio(window)
        yield court.of_recordings(ratio, (*BASE, ratio), (ratio,), [burns.grows(promise, measure, window)])
    left = (recorded.BUDGET, recorded.error_ratio(period), recorded.BUDGET_LEFT)
    mean = promise.budget_ratio / 2
    yield court.of_recordings("budget", (*BASE, *left), left, [burns.grows(promise, measure, period, mean)])
    alerts = court.alerts(recorded.INTERVAL_S)
    for place, pair in enumerate(windows.pairs):
        reads = (*BASE, *map(recorded.error_ratio, _around(pair, windows.lengths)))
        yield court.of_alert(place, reads, _of_pair(promise, measure, pair, alerts[place], windows))
    yield court.of_alert(len(alerts) - 1, BASE, burns.falls_silent(measure, alerts[-1]))


def _of_pair(promise: Promise, measure: Measure, pair: WindowPair, alert: Alert, windows: Windows) -> list[Case]:
    steady, *others = burns.stories(promise, pair, windows)
    bad_ratio = steady.stretches[0].bad_ratio
    spent_s = promise.period_days * DAY_S * promise.budget_ratio / bad_ratio
    saying = burns.said(measure, steady, alert, f"{bad_ratio * 100:.4g}%", _duration(spent_s))
    return [saying, *(burns.told(measure, story, alert) for story in others)]


def _duration(value_s: float) -> str:
    """Say a time in whole minutes as Prometheus does."""
    minutes = round(value_s / 60)
    days, hours = minutes // 1440, minutes // 60 % 24
    return f"{f'{days}d ' if days else ''}{f'{hours}h ' if days or hours else ''}{minutes % 60}m 0s"


def _around(pair: WindowPair, lengths: Sequence[str]) -> set[str]:
    """Return the windows of a pair and those next to them, which a wrong alert may read."""
    places = [lengths.index(window) for window in (pair.long, pair.short, pair.now)]
    return {lengths[i] for place in places for i in range(max(place - 1, 0), min(place + 2, len(lengths)))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    promise: Promise
    windows: Windows

    def group(self, pace: int) -> Group:
        """Return the promise's rules as they are made to be evaluated so often."""
        (group,) = rules.groups([self.promise], self.windows, pace)
        return group

    def alerts(self, pace: int) -> list[Alert]:
        return [rule for rule in self.group(pace).rules if isinstance(rule, Alert)]

    def of_alert(self, place: int, reads: Sequence[str], cases: Sequence[Case]) -> Trial:
        """Return the trial of the alert at this place, beside the recordings that it reads."""
        alert = self.alerts(recorded.INTERVAL_S)[place]

        def made(pace: int) -> list[Rule]:
            return [*self._plain(reads, pace), self.alerts(pace)[place].plain()]

        name = f"{self._name} {alert.name} {alert.labels.get('window', '')}".strip()
        return self._trial(name, made, (len(reads),), cases)

    def of_recordings(self, name: str, reads: Sequence[str], accused: Sequence[str], cases: Sequence[Case]) -> Trial:
        """Return the trial of some recordings, beside others that they read."""
        made = partial(self._plain, reads)
        found = enumerate(made(recorded.INTERVAL_S))
        places = tuple(i for i, rule in found if rule["record"] in accused)
        return self._trial(f"{self._name} {name}", made, places, cases)

    def _trial(self, name: str, made: Made, accused: tuple[int, ...], cases: Sequence[Case]) -> Trial:
        promise = self.promise
        names = (promise.tier, promise.objective, promise.says)
        return Trial(name=name, made=made, accused=accused, cases=tuple(cases), names=names)

    @property
    def _name(self) -> str:
        return self.group(recorded.INTERVAL_S).name

    def _plain(self, records: Iterable[str], pace: int) -> list[Rule]:
        """Return these recording rules, in the group's own order."""
        wanted = set(records)
        made = self.group(pace).rules
        return [rule.plain() for rule in made if isinstance(rule, RecordingRule) and rule.record in wanted]
