"""Reads the judge's tolerances that ship with the platform; what is right, ``control/rollout/gates.py`` says."""

from functools import lru_cache

import yaml

from penstock.apps import slos
from penstock.apps.shipped import shipped
from penstock.control.rollout.gates import Gates, parse
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator
from penstock.domain.serving.spec import SpecRefused


@lru_cache
def load(tier: Tier) -> Gates:
    """Return the gates of rollouts in this tier; its promise of availability says how many ends may be bad."""
    path = shipped("slo_rollout.yaml", "slo/rollout.yaml")
    objective = slos.load()[tier].objective(Indicator.AVAILABILITY)
    if objective is None:
        raise CommandError(f"Tier {tier} promises no availability, so nothing can be rolled out in it.")
    try:
        return parse(yaml.safe_load(path.read_bytes()), path.name, error_budget_ratio=objective.error_budget_ratio)
    except (yaml.YAMLError, SpecRefused) as error:
        raise CommandError(f"The tolerances of rollouts can't be read: {error}.", do=f"Correct {path}.") from error
