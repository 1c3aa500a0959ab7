"""What pods are told in the platform's own settings, and who reaches their metrics."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from infra.contract import process
from infra.graph.captured import Capture

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "infra/contract.json"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def settings() -> set[str]:
    """Return the variables that some process of the platform reads, as its contract says."""
    processes = json.loads(CONTRACT.read_text())["processes"].values()
    return {setting["name"] for process in processes for setting in process["settings"]}


def environments(captures: tuple[Capture, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each gateway's and controller's variables, with the text of those that are plain."""
    for item in captures:
        kinds = ("kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:StatefulSet")
        for node in (node for kind in kinds for node in item.graph.of(kind)):
            text = str(node.inputs)
            named = re.findall(r"\{'name': '(PENSTOCK_\w+)'(?:, 'value': '([^']*)')?", text)
            if named:
                yield node.urn, dict(named)


def test_every_variable_is_one_that_the_platform_reads(captures: tuple[Capture, ...]) -> None:
    """Finding 9: a variable that is read by nobody, as PENSTOCK_CACHE_URL was, or is not part of another, is found."""
    found = list(environments(captures))
    assert found
    known = settings()
    unread = {
        name
        for _, named in found
        for name in named
        if name not in known and not any(f"$({name})" in value for value in named.values())
    }
    assert unread == set()


def test_several_gateways_share_their_limits(captures: tuple[Capture, ...]) -> None:
    """Finding 9: where there may be several gateways, each knows the store that they share, and how many they are."""
    gateways = [named for urn, named in environments(captures) if urn.endswith("gateway")]
    assert gateways
    for named in gateways:
        assert {"PENSTOCK_LIMITS_URL", "PENSTOCK_ANSWERS_URL", "PENSTOCK_GATEWAYS"} <= set(named)


def test_metrics_of_tenants_are_for_prometheus_alone(captures: tuple[Capture, ...]) -> None:
    """Finding 8: gateways and controllers are scraped on a port of their own, which nobody but Prometheus reaches."""
    port = process("gateway").ports["private"].number
    policies = [node for item in captures for node in item.graph.of(POLICY) if node.urn.endswith(f"-from-{port}")]
    assert policies
    for policy in policies:
        text = str(policy.inputs)
        assert "ipBlock" not in text
        assert text.count("podSelector") == 2  # whose policy it is, and who comes
        assert "'prometheus'" in text
