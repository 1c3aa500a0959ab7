"""What the controller writes for a version on its device: names, places, numbers, queries."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.manifests import written
from penstock.connectors.kubernetes.placing import place, why_nowhere
from penstock.connectors.kubernetes.pools import EDITION, FILLED, Pools, read
from penstock.connectors.kubernetes.scaling import AUTHENTICATION
from penstock.connectors.kubernetes.steps import Apply, Delete, steps, stuck
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.versions import FleetPlan, Served
from penstock.domain.ids import VersionId
from tests.support.clusters import pools as kube_pools
from tests.support.clusters.pools import GIB

VERSION = VersionId("chat-8b@0123456789ab")
LABEL = re.compile(r"[a-z]([a-z0-9-]{0,44}[a-z0-9])?")
MODEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
RESTS = 17
"""What Kubernetes adds to a Deployment's name for a pod's: a hash of the template, and one of the pod."""


def pools(folder: Path, *some: dict[str, object]) -> Pools:
    return read(kube_pools.file(folder, *some))


def served(gib: float = 16, *, gpus: int = 1, least: int = 1) -> Served:
    return Served(version=VERSION, least=least, workers=least, gpus=gpus, held_bytes=int(gib * GIB))


@given(model=st.from_regex(MODEL, fullmatch=True), device=st.from_regex(r"[a-z][a-z0-9-]{0,40}", fullmatch=True))
def test_every_name_is_valid(model: str, device: str) -> None:
    """Whatever a model and a device are called, the name is a DNS label that leaves room for a pod's own part."""
    name = names.workload(VersionId(f"{model}@0123456789ab"), device)
    assert LABEL.fullmatch(name)
    assert len(name) + RESTS <= 63


def test_no_two_names_are_the_same() -> None:
    """Models that differ in what a label can't say, or in their digests, have different names."""
    versions = ["a.b@000000000000", "a-b@000000000000", "a_b@000000000000", "a-b@000000000001", "a" * 60 + "@0" * 2]
    found = {names.workload(VersionId(version), pool) for version in versions for pool in ("p", "q", "p" * 30)}
    assert len(found) == len(versions) * 3


@pytest.mark.parametrize(("gib", "into"), [(4, "slice"), (40, "l40s"), (60, "big"), (100, None)])
def test_the_smallest_device_that_holds_it(tmp_path: Path, gib: float, into: str | None) -> None:
    """A version goes to the smallest device that holds one worker, and to no larger one."""
    some = [kube_pools.device("l40s"), kube_pools.device("slice", gib=20), kube_pools.device("big", gib=80, gpus=8)]
    placed = place(served(gib), pools(tmp_path, *some).devices)
    assert (placed.device.name if placed else None) == into


def test_several_gpus_are_of_one_node(tmp_path: Path) -> None:
    """A version of several GPUs goes where one node has so many; nowhere, it says what there is."""
    some = pools(tmp_path, kube_pools.device("l40s"), kube_pools.device("big", gib=80, groups=8, gpus=8)).devices
    placed = place(served(500, gpus=8), some)
    assert placed
    assert (placed.device.name, placed.size.gpus) == ("big", 8)
    assert place(served(gpus=3), some) is None
    assert "needs 3 GPUs in one node; pools offer 1, 8" in why_nowhere(served(gpus=3), some)
    assert "needs 900 GiB" in why_nowhere(served(900, gpus=8), some)


def test_one_deployment_whatever_the_machines(tmp_path: Path) -> None:
    """Findings U2 and N13: a version begins as one Deployment that says no number, with one scaler and its bounds."""
    objects = list(written(served(least=2), pools(tmp_path)))
    assert [one.kind.name for one in objects] == ["Deployment", "PodDisruptionBudget", "ScaledObject"]
    deployment, _, scaler = (one.body["spec"] for one in objects)
    assert "replicas" not in json.dumps(deployment)
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"]) == (2, 8)  # type: ignore[index]
    text = json.dumps([one.body for one in objects])
    assert [place_ for place_ in FILLED if place_ in text] == []
    assert VERSION in text


def test_no_machine_is_named(tmp_path: Path) -> None:
    """A pod goes where its template says, and is gated: which scaler brings the machine is decided pod by pod."""
    some = {**kube_pools.device("l40s"), "template": kube_pools.template(nodeSelector={"penstock.io/gpu": "l40s"})}
    spec = next(written(served(), pools(tmp_path, some))).body["spec"]["template"]["spec"]  # type: ignore[index]
    assert spec["nodeSelector"] == {"penstock.io/gpu": "l40s"}
    assert spec["schedulingGates"] == [{"name": "penstock.io/scaler"}]


def test_only_machines_that_stay_have_a_budget(tmp_path: Path) -> None:
    """Finding N10: no budget selects a worker on a machine that may be taken, so that all hear of it at once."""
    deployment, budget, _ = (one.body["spec"] for one in written(served(), pools(tmp_path)))
    wanted = budget["selector"]["matchLabels"]  # type: ignore[index]
    made = deployment["template"]["metadata"]["labels"]  # type: ignore[index]
    on_groups, burst = ({**made, "penstock.io/scaler": scaler} for scaler in ("asg", "karpenter"))
    assert wanted.items() <= on_groups.items()
    assert not wanted.items() <= burst.items()
    assert budget["maxUnavailable"] == "20%"  # type: ignore[index]


def test_missing_data_is_not_no_load(tmp_path: Path) -> None:
    """Finding 3.18: no query gives a number that nobody measured; an error holds, and is never taken for no load."""
    (scaler,) = (one.body["spec"] for one in written(served(), pools(tmp_path)) if one.kind.name == "ScaledObject")
    asked = scaler["triggers"][1]["metadata"]  # type: ignore[index]
    assert asked["ignoreNullValues"] == "false"
    assert not [word for word in ("vector(", "absent") if word in asked["query"]]
    fallback = {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfHigher"}
    assert scaler["fallback"] == fallback  # type: ignore[index]


def test_the_number_passes_through(tmp_path: Path) -> None:
    """KEDA asks the controller, over TLS, and the HPA adds no tolerance, window or slow policy to its answer."""
    (one,) = (item.body["spec"] for item in written(served(), pools(tmp_path)) if item.kind.name == "ScaledObject")
    pushed, floor = one["triggers"]  # type: ignore[index]
    assert (pushed["type"], pushed["metricType"]) == ("external-push", "AverageValue")
    assert pushed["metadata"] == {"scalerAddress": "controller-scaler.penstock.svc:8078", "enableTLS": "true"}
    assert pushed["authenticationRef"] == {"name": AUTHENTICATION}
    assert (floor["metadata"]["threshold"], floor["metadata"]["activationThreshold"]) == ("1", "0")
    behaviour = one["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]  # type: ignore[index]
    for way in ("scaleUp", "scaleDown"):
        rules = behaviour[way]
        assert (rules["tolerance"], rules["stabilizationWindowSeconds"]) == ("0", 0)
        assert rules["policies"] == [{"type": "Pods", "value": 8, "periodSeconds": 15}]


def test_a_renewal_is_another_template(tmp_path: Path) -> None:
    """Renewing a version changes its pods' template, so that Kubernetes replaces them one at a time."""
    once, again = (
        next(written(Served(version=VERSION, least=1, workers=1, renew_before=at), pools(tmp_path))).body
        for at in (0.0, 5.0)
    )
    assert once["spec"] != again["spec"]


OTHER = VersionId("embed@0123456789ab")


def standing(at: float, folder: Path, **status: object) -> dict[str, dict[str, Any]]:
    """Return the Deployments of two versions, as the cluster shows them once they stand."""
    plain = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}
    made = [one for version in (VERSION, OTHER) for one in written(renewed(version, at), pools(folder))]
    found = {one.name: dict(one.body) for one in made if one.kind.name == "Deployment"}
    for one in found.values():
        one |= {"metadata": {**one["metadata"], "generation": 1, "uid": "u"}, "status": {**plain, **status}}  # type: ignore[dict-item]
    return found


def renewed(version: VersionId, at: float) -> Served:
    return Served(version=version, least=1, workers=1, renew_before=at)


def applied(folder: Path, workloads: dict[str, dict[str, Any]], held: tuple[str, ...] = ()) -> list[str]:
    """Return the Deployments that a plan of another template writes now."""
    plan = FleetPlan(served=(renewed(VERSION, 5.0), renewed(OTHER, 5.0)))
    due = [one for one in steps(plan, workloads, {}, pools(folder), held) if isinstance(one, Apply)]
    return [one.written.name for one in due if one.written.kind.name == "Deployment"]


def test_one_exchange_at_a_time(tmp_path: Path) -> None:
    """Another template goes to one Deployment, to the next once no pod of the old one is left; a stuck one is said."""
    # All at once would ask for a machine more for each of them, and spread a bad template before it has served once.
    first, second = standing(0.0, tmp_path)
    assert applied(tmp_path, {}) == [first, second], "what does not stand yet waits for nobody"
    old = standing(0.0, tmp_path)
    assert applied(tmp_path, old) == [first]
    assert applied(tmp_path, old, held=(first,)) == [first, second], "nobody waits for what can't be written"
    new = standing(5.0, tmp_path)
    for status in ({"observedGeneration": 0}, {"updatedReplicas": 1, "replicas": 3}):
        half = {first: standing(5.0, tmp_path, **status)[first], second: old[second]}
        assert applied(tmp_path, half) == [first]
    assert applied(tmp_path, {first: new[first], second: old[second]}) == [first, second]
    assert applied(tmp_path, new) == [first, second]
    gave_up = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
    assert stuck(standing(0.0, tmp_path)) == {}
    assert "(ProgressDeadlineExceeded): make room" in stuck(standing(0.0, tmp_path, conditions=gave_up))[first]


def test_a_version_leaves_in_steps(tmp_path: Path) -> None:
    """Wanted no more, a version loses its scaler alone; its pods go when the plan says that their streams ended."""
    stands = standing(0.0, tmp_path)
    for plan, kinds in (
        (FleetPlan(served=()), ["ScaledObject"]),
        (FleetPlan(served=(), withdrawn=(VERSION, OTHER)), ["ScaledObject", "PodDisruptionBudget", "Deployment"]),
        (FleetPlan(served=None, withdrawn=(VERSION, OTHER)), []),
    ):
        due = [one for one in steps(plan, stands, {}, pools(tmp_path)) if isinstance(one, Delete)]
        assert [one.kind.name for one in due] == kinds * 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "can't be read"),
        ('{"edition": 3}', "can't be read"),
        (json.dumps(kube_pools.content() | {"edition": EDITION + 1}), f"not {EDITION}"),
        (json.dumps(kube_pools.content() | {"devices": []}), "no device"),
        (json.dumps(kube_pools.content() | {"namespaces": "x"}), "unknown field `namespaces`"),
        (json.dumps(kube_pools.content()).replace('"bytes":', '"byte": "x", "bytes":'), "unknown field `byte`"),
    ],
)
def test_pools_that_nobody_can_use(tmp_path: Path, content: str, told: str) -> None:
    """A file that is missing, damaged, of another edition, empty or misspelt ends the start with words."""
    file = tmp_path / "pools.json"
    if content:
        file.write_text(content)
    with pytest.raises(CommandError, match=told):
        read(file)
