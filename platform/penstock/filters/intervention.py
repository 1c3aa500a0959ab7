"""What a filter did to a request, without any of its text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.tenancy.audit import NO_TENANT
from penstock.filters.pack import Action, Where

MOST = 32
"""Interventions recorded for one request; metrics count all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """A rule's match and what followed. ``number`` counts within the request, from 0; ``at`` is Unix seconds.

    ``action`` is the one taken, ``wanted`` the rule's own: they differ if its pack only observes.
    """

    request: RequestId
    number: int
    tenant: TenantId
    version: VersionId
    pack: str
    """Id and version, as ``secrets@3``."""
    digest: str
    rule: str
    stage: Where
    action: Action
    wanted: Action
    position: int
    """Characters of the judged text before the match, in its choice."""
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """Interventions of a rule in a time, or with an empty ``rule`` of a pack, and the requests that they were in."""

    tenant: TenantId
    pack: str
    rule: str
    stage: Where
    action: Action
    wanted: Action
    interventions: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A filter of interventions: Unix seconds; an empty name selects all."""

    since: float = 0.0
    until: float = 0.0
    tenant: TenantId = NO_TENANT
    pack: str = ""
    """A pack's id, or id and version."""
    rule: str = ""
    request: str = ""


class InterventionSink(Protocol):
    async def record(self, interventions: Sequence[Intervention]) -> None:
        """Store each intervention once; one that was stored before stays."""
        ...
