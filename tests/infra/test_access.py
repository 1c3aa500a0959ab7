"""Every principal can make the calls that its work needs, and none of those that it must not make.

The cases say what each process, add-on and AWS service does, from its own documentation; the decision is taken as AWS
takes it, over the identity's policies, the boundary, the resource's policy and the network endpoint's.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.values import text
from tests.infra.access.evaluate import Call, Verdict, decide
from tests.infra.access.world import ASSOCIATION, ROLE, World

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(__file__).parent / "access" / "cases"
REGIONS = ("us-east-1", "us-west-2")
MIN_CASES = 250


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


def cases() -> Iterator[Case]:
    for path in sorted(CASES.glob("*.yaml")):
        for block in yaml.safe_load(path.read_text(encoding="utf-8")):
            assert block["source"], f"{block['who']} has no source"
            for region in REGIONS:
                if block.get("only", region) == region:
                    for key in ("may", "may_not"):
                        for call in block.get(key, ()):
                            yield Case(who=block["who"], region=region, wanted=key == "may", call=call)


@pytest.fixture(scope="module")
def worlds(fleet: Fleet, captures: tuple[Capture, ...]) -> dict[str, World]:
    """Return the account as seen from each region."""
    return {name: World(environment=fleet.environment, captures=captures, region=name) for name in REGIONS}


def verdict(world: World, case: Case) -> Verdict:
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


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_call_is_decided_as_its_work_needs(worlds: dict[str, World], case: Case) -> None:
    """Each listed call is allowed or refused, as the principal's own documentation says that it must be."""
    found = verdict(worlds[case.region], case)
    assert found.allowed == case.wanted, found.reason


def test_every_pod_identity_has_cases() -> None:
    """No pod has rights that no case asks about, and the cases are as many as were promised."""
    told = {case.who["pod"] for case in cases() if "pod" in case.who}
    assert len(told) >= 11
    assert len(list(cases())) >= MIN_CASES


def test_only_who_calls_aws_has_rights(captures: tuple[Capture, ...]) -> None:
    """A process that the contract sends to no service of AWS has no identity there: the controller has none."""
    namespace, services = "penstock", {"artifacts"}
    told = json.loads((ROOT / "infra" / "contract.json").read_text(encoding="utf-8"))["processes"]
    calling = {name for name, one in told.items() if services & {call["to"] for call in one["calls"]}}
    for item in captures:
        nodes = [node for node in item.graph.of(ASSOCIATION) if text(node.inputs, "namespace") == namespace]
        assert not nodes or {text(node.inputs, "serviceAccount") for node in nodes} == calling
    assert "controller" in set(told) - calling


def test_every_role_is_asked_about(captures: tuple[Capture, ...], worlds: dict[str, World]) -> None:
    """Each role of the account is the principal of some case, or the role of a service that nobody of ours plays."""
    asked = {worlds[case.region].actor(case.who).arn for case in cases() if {"pod", "role"} & set(case.who)}
    roles = [node for item in captures for node in item.graph.of(ROLE)]
    left = {node.name.rsplit("-", 3)[0] for node in roles if node.outputs["arn"] not in asked}
    assert left <= {"database-monitoring"}
    assert any(item.graph.of(ASSOCIATION) for item in captures)
