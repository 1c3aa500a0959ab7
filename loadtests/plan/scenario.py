"""Scenarios (``scenarios/``: times and contents of requests) and mixes (``mixes/``: their tenants) as data. One
file each.

A file that says something unknown or impossible is refused with its place; nothing is guessed.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from loadtests.plan import fits
from penstock.domain.models.model import Tier

FOLDER = Path(__file__).parents[1]
SCENARIOS, MIXES = FOLDER / "scenarios", FOLDER / "mixes"

Above0 = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
T = TypeVar("T")
Curve = Annotated[tuple[Above0, ...], msgspec.Meta(min_length=1)]


class ScenarioRefused(Exception):
    """A scenario or a mix can't be used; the message says which file and why."""


class Sessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Callers who read an answer before they go on: turns in the mean, and seconds of thought between them."""

    turns: Annotated[float, msgspec.Meta(ge=1)]
    think_s: Annotated[float, msgspec.Meta(ge=0)]


class Tenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tenant: its part of the traffic, what it may expect, and how its callers behave."""

    name: str
    weight: Above0 = 1.0
    """Its part of all requests, beside the others' weights."""
    tier: Tier = Tier.CHAT
    """Whose promises its requests are judged by."""
    priority: str = ""
    """How the report names its class; the class itself comes with its key."""
    judged: bool = True
    """False: its own figures are shown, and decide nothing (a neighbour that is meant to be refused)."""
    cv: Above0 | None = None
    lengths: str = ""
    sharing: str = ""
    """Like the scenario's own, where these are empty."""
    from_part: Share = 0.0
    until_part: Share = 1.0
    """The part of the run in which it asks."""
    unary_ratio: Share = 0.0
    slow_ratio: Share = 0.0
    """How many read slower than an answer comes."""
    leaving_ratio: Share = 0.0
    """How many hang up in the middle of an answer."""
    sessions: Sessions | None = None

    def __post_init__(self) -> None:
        _check_fits(self.lengths, self.sharing)


class Mix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mix of tenants: which ask, and how much of the load each is."""

    says: str
    tenants: Annotated[tuple[Tenant, ...], msgspec.Meta(min_length=1)]


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When and what is asked, and how refusals are judged."""

    says: str
    mix: str
    duration_s: Above0
    per_s: Above0 | None = None
    """Requests a second in the mean, all tenants together; or else"""
    of_capacity: Above0 | None = None
    """that many times what the target can do."""
    lengths: str
    sharing: str = ""
    """A fit's name; prompts have nothing in common where empty."""
    cv: Above0 = 1.0
    curve: Curve = (1.0,)
    hours_of: str = ""
    """A fit whose day is the curve of the rate."""
    trace: str = ""
    """The file of a trace whose requests are asked at their own times."""
    refusals: Literal["bad", "expected"] = "bad"
    """Whether a refusal for lack of capacity breaks availability, though it names the time to come back."""

    def __post_init__(self) -> None:
        if (self.per_s is None) == (self.of_capacity is None) and not self.trace:
            raise ValueError("name either per_s or of_capacity")
        _check_fits(self.lengths, self.sharing)
        if self.hours_of and not fits.load(self.hours_of).hours:
            raise ValueError(f"{self.hours_of} says nothing of a day's hours")


def _check_fits(lengths: str, sharing: str) -> None:
    """Raise ``ValueError`` if a fit is missing, or lacks the data that it is named for."""
    if lengths:
        fits.load(lengths)
    if sharing and fits.load(sharing).sharing is None:
        raise ValueError(f"{sharing} says nothing of shared prefixes")


def names(folder: Path = SCENARIOS) -> list[str]:
    """Return the names of all scenarios, or of all mixes."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load(name: str) -> Scenario:
    """Return a scenario by its name or its file's path, or raise ``ScenarioRefused``."""
    return _read(name, SCENARIOS, Scenario)


def load_mix(name: str) -> Mix:
    """Return a mix by its name or its file's path, or raise ``ScenarioRefused``."""
    mix = _read(name, MIXES, Mix)
    tenants = [tenant.name for tenant in mix.tenants]
    if len(set(tenants)) < len(tenants):
        raise ScenarioRefused(f"{name}: a tenant is named twice")
    return mix


def _read(name: str, folder: Path, kind: type[T]) -> T:
    path = Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml"
    if not path.exists():
        raise ScenarioRefused(f"there is no {path}; in {folder.name} there are {', '.join(names(folder))}")
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise ScenarioRefused(f"{path.name}: {error}") from error
