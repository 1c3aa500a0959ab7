"""Reads the SLO specifications that ship with the platform; what is right or wrong in them, ``domain/slo.py`` says."""

from functools import lru_cache
from pathlib import Path

import yaml

from penstock.apps.shipped import shipped
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier, parse_all
from penstock.domain.serving.spec import SpecRefused


def read(folder: Path) -> dict[Tier, SloTier]:
    """Return all tiers that the folder's YAML files describe, or raise ``CommandError`` naming file, key and remedy."""
    try:
        return parse_all({path.name: yaml.safe_load(path.read_bytes()) for path in sorted(folder.glob("*.yaml"))})
    except yaml.YAMLError as error:
        raise CommandError(f"An SLO specification in {folder} is not YAML: {error}") from error
    except SpecRefused as error:
        raise CommandError(f"SLO specification {error}.", do=f"Correct the file in {folder}.") from error


@lru_cache(maxsize=1)
def load() -> dict[Tier, SloTier]:
    """Return the platform's own tiers."""
    return read(shipped("slo_specs", "slo/specs"))
