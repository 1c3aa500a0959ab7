"""The shipped SLOs: tiers, windows, error-budget policy, tolerances of rollouts.

The files are in the wheel or, in a checkout, under ``slo/``; the packages that use them parse them.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import penstock
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator, SloTier, parse_all
from penstock.domain.serving.spec import SpecRefused
from penstock.formats.documents import DocumentRefused, yaml_of
from penstock.judging import gates as rollout_gates
from penstock.judging.gates import Gates
from penstock.slo import policy as budget_policy
from penstock.slo import windows as alert_windows
from penstock.slo.budgets import Promised
from penstock.slo.files import promises
from penstock.slo.indicators import Unmeasurable
from penstock.slo.policy import Policy
from penstock.slo.windows import Windows

_PACKAGE = Path(penstock.__file__).parent
_REPOSITORY = _PACKAGE.parents[1]
_RULES = "penstock-"
"""The start of the names of rule files."""

T = TypeVar("T")


def shipped(in_wheel: str, in_repository: str) -> Path:
    for path in (_PACKAGE / in_wheel, _REPOSITORY / in_repository):
        if path.exists():
            return path
    raise CommandError(
        f"This installation lacks {in_wheel}.", do="Install penstock again, from its wheel or a checkout."
    )


def read(folder: Path) -> dict[Tier, SloTier]:
    try:
        return parse_all({path.name: yaml_of(path.read_bytes()) for path in sorted(folder.glob("*.yaml"))})
    except DocumentRefused as error:
        raise CommandError(f"An SLO specification in {folder} can't be read: {error}.") from error
    except SpecRefused as error:
        raise CommandError(f"SLO specification {error}.", do=f"Correct the file in {folder}.") from error


@lru_cache(maxsize=1)
def load() -> dict[Tier, SloTier]:
    return read(shipped("slo_specs", "slo/specs"))


@lru_cache(maxsize=1)
def windows() -> Windows:
    return _parsed("windows", alert_windows.parse)


@lru_cache(maxsize=1)
def policy() -> Policy:
    return _parsed("budget_policy", budget_policy.parse)


@lru_cache
def gates(tier: Tier) -> Gates:
    objective = load()[tier].objective(Indicator.AVAILABILITY)
    if objective is None:
        raise CommandError(f"Tier {tier} promises no availability, so nothing can be rolled out in it.")
    ratio = objective.error_budget_ratio
    return _parsed("rollout", lambda raw, source: rollout_gates.parse(raw, source, error_budget_ratio=ratio))


def promised() -> Promised:
    return Promised(tiers=load(), least_bad_events=windows().least_bad_events)


def _parsed(name: str, parse: Callable[[object, str], T]) -> T:
    path = shipped(f"slo_{name}.yaml", f"slo/{name}.yaml")
    try:
        return parse(yaml_of(path.read_bytes()), path.name)
    except (DocumentRefused, SpecRefused) as error:
        raise CommandError(f"{path.name} can't be read: {error}.", do=f"Correct {path}.") from error


def rule_files() -> dict[str, str]:
    """Return each rule file's text by name; ``CommandError`` for an SLO that can't be measured."""
    try:
        texts = promises(load(), windows())
    except Unmeasurable as error:
        raise CommandError(f"A promise can't be watched: {error}.", do="Correct the file in slo/specs.") from error
    causes = sorted(shipped("slo_alerts", "slo/alerts").glob("*.yaml"))
    texts |= {path.name: path.read_text() for path in causes}
    return {f"{_RULES}{name}": text for name, text in texts.items()}


def write_rules(folder: Path) -> list[Path]:
    texts = rule_files()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{_RULES}*.yaml"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in sorted(texts)]
