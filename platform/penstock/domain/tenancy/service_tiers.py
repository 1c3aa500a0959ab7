"""Service tiers by plan: the tier that a request asks for, and the one that its tenant's plan allows. Pure.

OpenAI's APIs ask for a tier by name. Anthropic's asks for ``auto`` or ``standard_only``, and reports ``standard``,
``priority`` or ``batch``.
"""

from dataclasses import replace

from penstock.domain.errors import InvalidField
from penstock.domain.tenancy.tenant import Plan, Principal, TierName

FIELD = "service_tier"
AUTO = "auto"
FAST = "fast"
"""OpenAI's alternative name for its priority tier, answered as ``priority``."""
ASKED = (AUTO, *TierName, FAST)
"""Tiers that OpenAI's APIs accept."""
STANDARD_ONLY = "standard_only"
_NAMES = {FAST: TierName.PRIORITY, STANDARD_ONLY: TierName.DEFAULT}


def told_in_messages(tier: TierName) -> str:
    """``priority`` for each tier above the default."""
    return _IN_MESSAGES.get(tier, "priority")


_IN_MESSAGES = {TierName.DEFAULT: "standard", TierName.FLEX: "batch"}


def served(who: Principal, asked: str) -> Principal:
    """Raises ``InvalidField`` if the plan has no such tier."""
    plan = who.plan
    name = plan.auto_tier if asked in ("", AUTO) else _NAMES.get(asked) or TierName(asked)
    if name is TierName.DEFAULT:
        return who
    tier = next((one for one in plan.service_tiers if one.name is name), None)
    if tier is None:
        raise InvalidField(f"this plan has no service tier {asked}: it has {', '.join(named(plan))}", param=FIELD)
    return replace(who, plan=replace(plan, priority=tier.priority), tier=tier)


def named(plan: Plan) -> tuple[str, ...]:
    return (TierName.DEFAULT, *(tier.name for tier in plan.service_tiers))
