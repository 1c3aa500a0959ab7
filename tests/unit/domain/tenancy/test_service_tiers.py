"""Service tiers of a plan: what a request asks for, what it gets, and what it costs."""

from typing import get_args, get_type_hints

import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from anthropic.types.usage import Usage
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from penstock.domain.errors import InvalidField
from penstock.domain.money import MicroUsd, Price
from penstock.domain.tenancy import service_tiers
from penstock.domain.tenancy.tenant import Plan, Priority, ServiceTier, TierName
from tests.support.samples.calls import principal

FLEX = ServiceTier(name=TierName.FLEX, priority=Priority.BATCH, price_factor=0.5)
PRIORITY = ServiceTier(name=TierName.PRIORITY, priority=Priority.INTERACTIVE, price_factor=2.0)
PLAN = Plan(service_tiers=(FLEX, PRIORITY))


def literals(hint: object) -> set[str]:
    """Return the strings of a literal type, however deep it stands."""
    inner = get_args(hint)
    found = {one for one in inner if isinstance(one, str)}
    return found.union(*(literals(one) for one in inner if not isinstance(one, str)))


@pytest.mark.parametrize("params", [CompletionCreateParamsBase, ResponseCreateParamsBase])
def test_each_value_of_openais_sdk_is_known(params: type) -> None:
    """A newer SDK with a tier that we neither serve nor refuse by name fails here."""
    asked = literals(get_type_hints(params)[service_tiers.FIELD])
    assert asked <= set(service_tiers.ASKED)
    served = {"auto", "default", "flex", "priority", "fast"}
    for one in served:
        assert service_tiers.served(principal(plan=PLAN), one).tier.name in asked
    for one in asked - served:
        with pytest.raises(InvalidField, match="it has default, flex, priority"):
            service_tiers.served(principal(plan=PLAN), one)


def test_each_value_of_anthropics_sdk_is_known() -> None:
    """What its SDK may ask for is what we take, and what we tell is what it may read."""
    asked = {service_tiers.AUTO, service_tiers.STANDARD_ONLY}
    assert literals(get_type_hints(MessageCreateParamsBase)[service_tiers.FIELD]) == asked
    told = {service_tiers.told_in_messages(name) for name in TierName}
    assert told == literals(Usage.model_fields[service_tiers.FIELD].annotation)


@pytest.mark.parametrize(
    ("auto", "asked", "tier"),
    [
        (TierName.DEFAULT, "", TierName.DEFAULT),
        (TierName.DEFAULT, "auto", TierName.DEFAULT),
        (TierName.FLEX, "", TierName.FLEX),
        (TierName.FLEX, "auto", TierName.FLEX),
        (TierName.FLEX, "default", TierName.DEFAULT),
        (TierName.FLEX, "standard_only", TierName.DEFAULT),
        (TierName.DEFAULT, "flex", TierName.FLEX),
        (TierName.DEFAULT, "fast", TierName.PRIORITY),
    ],
)
def test_the_plan_says_what_is_meant(auto: TierName, asked: str, tier: TierName) -> None:
    """``auto`` and silence are the plan's own choice; the class is the tier's, or the plan's for the default."""
    plan = Plan(service_tiers=(FLEX, PRIORITY), auto_tier=auto)
    who = service_tiers.served(principal(plan=plan), asked)
    assert who.tier.name is tier
    classes = {
        TierName.DEFAULT: Priority.STANDARD,
        TierName.FLEX: Priority.BATCH,
        TierName.PRIORITY: Priority.INTERACTIVE,
    }
    assert who.plan.priority is classes[tier]


@pytest.mark.parametrize(
    ("factor", "cost"), [(1.0, 31), (0.5, 16), (2.0, 61), (0.001, 1), (0.07, 3), (0.0, 0), (1.001, 31)]
)
def test_a_factor_makes_a_price_list(factor: float, cost: int) -> None:
    """Money stays whole micro-dollars, and binary fractions of a factor cost nobody anything."""
    micro = {"prompt": 100_000, "cached": 50_000, "output": 300_000}
    price = Price(**{f"{name}_per_mtok": MicroUsd(one) for name, one in micro.items()})
    assert price.at(factor).of(prompt=10, cached=5, output=99) == cost
