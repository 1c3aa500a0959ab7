"""Flips each threshold, window, comparison and label matcher of every rule, and shows that the tests notice.

``python -m tests.slo.mutants`` prints killed/total and the survivors, and ends with 1 if there are any.
"""

import sys
import tempfile
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.slo.mutations import Rule, mutants
from tests.support.monitoring import promtool, trials
from tests.support.monitoring.alert_rules import RULES
from tests.support.monitoring.trials import Trial

CASES = Path(__file__).parent / "cases"
AT_ONCE = 2
BATCH = 24
CAUSES_S = 0
"""Alerts on causes are the same however often they are evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A mutant as files: it survives if all of these tests pass; the quickest is the first."""

    name: str
    tests: tuple[Path, ...]


def of_promises(folder: Path, found: Sequence[Trial]) -> Iterator[Attempt]:
    """Write and yield every mutant of the generated rules that are on trial."""
    for i, trial in enumerate(found):
        tests = trial.write(folder / str(i))
        for place in trial.accused:
            for j, (fault, rules) in enumerate(_faulty(trial, place)):
                yield _attempt(f"{trial.name}: {fault}", folder / f"{i}-{place}-{j}", rules, tests)


def _faulty(trial: Trial, place: int) -> Iterator[tuple[str, Mapping[int, Sequence[Rule]]]]:
    """Yield each fault of a trial's rule at this place, and the rules with it, by how often they are evaluated."""
    made = {pace: trial.made(pace) for pace in trial.paces}
    for same in zip(*(mutants(rules[place]) for rules in made.values()), strict=True):
        faulty = zip(made.items(), same, strict=True)
        rules = {pace: [*found[:place], one.rule, *found[place + 1 :]] for (pace, found), one in faulty}
        yield same[0].fault, rules


def of_causes(folder: Path) -> Iterator[Attempt]:
    """Write and yield every mutant of the alerts on causes, each judged by the case of its name."""
    folder.mkdir()
    for name, rule in RULES.items():
        case = yaml.safe_load((CASES / f"{name}.yaml").read_text()) | {"rule_files": [trials.rules_at(CAUSES_S)]}
        middle = (len(case["tests"]) + 1) // 2  # most are noticed by the first half, which is the quicker one
        parts = [part for part in (case["tests"][:middle], case["tests"][middle:]) if part]
        tests = [promtool.write(folder / f"{name}-{i}.yaml", case | {"tests": part}) for i, part in enumerate(parts)]
        for j, mutant in enumerate(mutants(dict(rule))):
            yield _attempt(f"{name}: {mutant.fault}", folder / f"{name}-mutant-{j}", {CAUSES_S: [mutant.rule]}, tests)


def survivors(attempts: Sequence[Attempt]) -> list[str]:
    """Run the tests of all attempts, further ones only if the first noticed nothing; return the survivors."""
    alive = [(attempt, test) for attempt in attempts for test in attempt.tests[:1]]
    left: list[str] = []
    while alive:
        passed = _passed(alive)
        left += [attempt.name for attempt, test in passed if test == attempt.tests[-1]]
        alive = [(one, one.tests[one.tests.index(test) + 1]) for one, test in passed if test != one.tests[-1]]
    return left


def main() -> int:
    """Judge all mutants; return 1 if one survives."""
    with tempfile.TemporaryDirectory() as found:
        attempts = [*of_promises(Path(found) / "promises", trials.of_each_shape()), *of_causes(Path(found) / "causes")]
        alive = survivors(attempts)
    print(f"mutants killed: {len(attempts) - len(alive)} of {len(attempts)}")
    for name in alive:
        print(f"  survives: {name}")
    return 1 if alive else 0


Run = tuple[Attempt, Path]


def _passed(runs: Sequence[Run]) -> list[Run]:
    batches = [runs[i : i + BATCH] for i in range(0, len(runs), BATCH)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = ChainMap(*pool.map(lambda batch: promtool.failures([test for _, test in batch]), batches))
    return [run for run in runs if run[1] not in failed]


def _attempt(name: str, folder: Path, rules: Mapping[int, Sequence[Rule]], tests: Sequence[Path]) -> Attempt:
    """Put a mutant beside links to its tests, which read the rules of their own folder."""
    folder.mkdir()
    trials.write_rules(folder, rules)
    links = [folder / test.name for test in tests]
    for link, test in zip(links, tests, strict=True):
        link.symlink_to(test)
    return Attempt(name=name, tests=tuple(links))


if __name__ == "__main__":
    sys.exit(main())
