"""Every principal can make the calls that its work needs, and none of those that it must not make.

The cases say what each process, add-on and AWS service does, from its own documentation; the decision is taken as AWS
takes it, over the identity's policies, the boundary, the resource's policy and the network endpoint's.
"""

import json
from pathlib import Path

import pytest

from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.values import text
from tests.infra.access.cases import REGIONS, Case, cases, verdict
from tests.infra.access.world import ASSOCIATION, ROLE, World

ROOT = Path(__file__).resolve().parents[2]
MIN_CASES = 250


@pytest.fixture(scope="module")
def worlds(fleet: Fleet, captures: tuple[Capture, ...]) -> dict[str, World]:
    """Return the account as seen from each region."""
    return {name: World(environment=fleet.environment, captures=captures, region=name) for name in REGIONS}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_call_is_decided_as_its_work_needs(worlds: dict[str, World], case: Case) -> None:
    """Each listed call is allowed or refused, as the principal's own documentation says that it must be."""
    assert verdict(worlds[case.region], case) == ""


def test_every_pod_identity_has_cases() -> None:
    """No pod has rights that no case asks about, and the cases are as many as were promised."""
    told = {case.who["pod"] for case in cases() if "pod" in case.who}
    assert len(told) >= 11
    assert len(cases()) >= MIN_CASES


def test_only_who_calls_aws_has_rights(captures: tuple[Capture, ...]) -> None:
    """A process that the contract sends to no service of AWS has no identity there: the first start has none."""
    namespace, services = "penstock", {"artifacts", "audit"}
    told = json.loads((ROOT / "infra" / "contract.json").read_text(encoding="utf-8"))["processes"]
    calling = {name for name, one in told.items() if services & {call["to"] for call in one["calls"]}}
    for item in captures:
        nodes = [node for node in item.graph.of(ASSOCIATION) if text(node.inputs, "namespace") == namespace]
        assert not nodes or {text(node.inputs, "serviceAccount") for node in nodes} == calling
    assert "init" in set(told) - calling


def test_every_role_is_asked_about(captures: tuple[Capture, ...], worlds: dict[str, World]) -> None:
    """Each role of the account is the principal of some case, or the role of a service that nobody of ours plays."""
    asked = {worlds[case.region].actor(case.who).arn for case in cases() if {"pod", "role"} & set(case.who)}
    roles = [node for item in captures for node in item.graph.of(ROLE)]
    left = {node.name.rsplit("-", 3)[0] for node in roles if node.outputs["arn"] not in asked}
    assert left <= {"database-monitoring"}
    assert any(item.graph.of(ASSOCIATION) for item in captures)
