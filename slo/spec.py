"""The declared objectives, for the repository's own tools (rules, dashboards, verdicts)."""

from pathlib import Path

import yaml

from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier, parse_all

SPECS = Path(__file__).parent / "specs"


def load(folder: Path = SPECS) -> dict[Tier, SloTier]:
    """Return all tiers, or raise ``SpecRefused`` naming file, key and remedy."""
    return parse_all({path.name: yaml.safe_load(path.read_bytes()) for path in sorted(folder.glob("*.yaml"))})
