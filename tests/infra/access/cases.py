"""The calls that principals must be able to make, and must not, as data; and how AWS decides each.

The cases say what each process, add-on and AWS service does, from its own documentation; the decision is taken as AWS
takes it, over the identity's policies, the boundary, the resource's policy and the network endpoint's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.infra.access.evaluate import Call, Verdict, decide
from tests.infra.access.world import NotInTheGraphError, World

CASES = Path(__file__).parent / "cases"
REGIONS = ("us-east-1", "us-west-2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of one principal in one region, and whether it must be allowed."""

    who: Mapping[str, str]
    region: str
    wanted: bool
    call: Mapping[str, Any]

    def __str__(self) -> str:
        name = next(iter(self.who.values())).split("/")[-1]
        return f"{name}-{'may' if self.wanted else 'may-not'}-{self.call['call']}-{self.region}"


@cache
def cases() -> tuple[Case, ...]:
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("*.yaml")):
        for block in yaml.safe_load(path.read_text(encoding="utf-8")):
            assert block["source"], f"{block['who']} has no source"
            for region in REGIONS:
                if block.get("only", region) == region:
                    for key in ("may", "may_not"):
                        for call in block.get(key, ()):
                            yield Case(who=block["who"], region=region, wanted=key == "may", call=call)


def verdict(world: World, case: Case) -> str:
    """Say how AWS decides otherwise than a case says; empty if it decides so."""
    try:
        found = decided(world, case)
    except NotInTheGraphError as lacking:
        return f"there is no {lacking}"
    return "" if found.allowed == case.wanted else found.reason


def decided(world: World, case: Case) -> Verdict:
    """Decide a case: AWS asks once for each resource that an action touches, and all must be allowed."""
    actor, found = world.actor(case.who), Verdict(allowed=False, reason="the case names no resource")
    for template in case.call["to"]:
        resource = world.fill(template)
        service = case.call["call"].split(":")[0]
        inside = {"pod", "elsewhere"} & set(case.who) or case.who.get("role", "").startswith("node-")
        endpoint = world.endpoint_policy(service) if inside and goes_through(world, resource) else None
        call = Call(
            action=case.call["call"],
            resource=resource,
            context=context(world, case.call.get("with", {})),
            resource_policy=world.resource_policy(resource),
            endpoint=endpoint,
        )
        found = decide(actor, call)
        if not found.allowed:
            return found
    return found


def goes_through(world: World, resource: str) -> bool:
    """A gateway endpoint leads to the buckets of its own region only."""
    return not resource.split("/", maxsplit=1)[0].endswith(f"-{world.other}")


def context(world: World, given: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Give the keys that AWS adds to every request, and those of the case."""
    always: dict[str, object] = {
        "aws:RequestedRegion": world.region,
        "aws:PrincipalAccount": world.environment.account_id,
        "aws:SecureTransport": "true",
        "aws:ViaAWSService": "false",
        "s3:TlsVersion": "1.3",
    }
    filled = {world.fill(key): value for key, value in {**always, **given}.items()}
    return {
        key.lower(): tuple(world.fill(str(item)) for item in (value if isinstance(value, list) else [value]))
        for key, value in filled.items()
    }
