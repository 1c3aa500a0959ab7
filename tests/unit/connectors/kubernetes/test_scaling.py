"""The number's way to replicas: KEDA's and the HPA's rules by their documentation, and hands."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.kinds import POD
from penstock.connectors.kubernetes.manifests import written
from penstock.connectors.kubernetes.pools import Pools, read
from penstock.connectors.kubernetes.scaling import unfollowed
from penstock.connectors.kubernetes.steps import Delete, steps, told_numbers
from penstock.domain.fleet.versions import FleetPlan, Served
from penstock.domain.ids import VersionId, WorkerId
from tests.support.clusters import pools as kube_pools
from tests.support.clusters.hpa import SYNC_S, Answers, Scaled

VERSION = VersionId("chat-8b@0123456789ab")
NAME = names.workload(VERSION, "l40s")
ONE = Served(version=VERSION, least=0, workers=1, is_scaled=True)


def pools(folder: Path, *some: dict[str, Any]) -> Pools:
    return read(kube_pools.file(folder, *some))


def spec(folder: Path, *, least: int = 0, most: int = 100) -> dict[str, Any]:
    """Return the ScaledObject that is written for a version in one pool."""
    served = replace(ONE, least=least)
    (found,) = (
        one
        for one in written(served, pools(folder, kube_pools.device("l40s", groups=most)))
        if one.kind.name == "ScaledObject"
    )
    return dict(found.body["spec"])  # type: ignore[call-overload, no-any-return]


def driven(scaled: Scaled, told: Sequence[Answers]) -> list[int]:
    """Return the replicas after each period of the HPA, KEDA having polled before it."""
    found = []
    for n, answers in enumerate(told):
        scaled.poll(n * SYNC_S, answers)
        scaled.sync(n * SYNC_S, answers)
        found.append(scaled.replicas)
    return found


# -- the oracle holds to what is published ---------------------------------------------------------


def plain(replicas: int, **behavior: object) -> Scaled:
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    return Scaled(spec={"triggers": [{"metadata": {}}], "minReplicaCount": 1, "advanced": advanced}, replicas=replicas)


def test_twenty_one_over_twenty_is_ignored() -> None:
    """Keda #7900: within a tolerance of 10 % nothing changes, ever; of 22.1 over 20 it does."""
    assert driven(plain(20), [[21.0], [22.0]]) == [20, 20]
    assert driven(plain(20), [[22.1]]) == [23]


def test_the_documented_ratio() -> None:
    """Twice the value doubles, and half of it halves, after five minutes' window."""
    assert driven(plain(2), [[4.0]]) == [4]
    assert driven(plain(4), [[2.0]] * 22) == [4] * 20 + [2] * 2


def test_the_documented_policies() -> None:
    """The page's example: of 80 pods a tenth goes a minute, rounded up, and then of what is left."""
    down = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}
    scaled = plain(80, scaleDown=down)
    found = []
    for minute in range(3):
        scaled.sync(minute * 60.0, [10.0])
        found.append(scaled.replicas)
    assert found == [72, 64, 57]
    assert driven(plain(2), [[50.0]]) == [6], "four pods or twice as many, whichever is more"


def test_several_metrics_and_a_missing_one() -> None:
    """The largest counts; if one is missing the rest may add and never take away."""
    two = {"triggers": [{"metadata": {}}, {"metadata": {}}], "minReplicaCount": 1}
    assert driven(Scaled(spec=two, replicas=4), [[6.0, 8.0]]) == [8]
    assert driven(Scaled(spec=two, replicas=4), [[None, 2.0], [None, 6.0], [None, None]]) == [4, 6, 6]


def test_a_fallback_without_replicas_scales_to_zero() -> None:
    """KEDA 2.19 takes an error for no load if ``fallback.replicas`` is 0: a serving fleet ends."""
    fallback = {"failureThreshold": 3, "replicas": 0, "behavior": "currentReplicasIfHigher"}
    trap = {"triggers": [{"metadata": {}}], "minReplicaCount": 0, "cooldownPeriod": 30, "fallback": fallback}
    assert driven(Scaled(spec=trap, replicas=4), [[None]] * 4)[-1] == 0


# -- what is written passes the number through -----------------------------------------------------


def test_replicas_are_the_number(tmp_path: Path) -> None:
    """Each number is there one period later: one more of twenty, ten times as many, and fewer, whatever the step."""
    numbers = [1, 20, 21, 22, 21, 3, 30, 1]
    assert driven(Scaled(spec=spec(tmp_path), replicas=1), [[float(n), float(n)] for n in numbers]) == numbers


def test_from_zero_and_to_zero(tmp_path: Path) -> None:
    """0 to 1 is KEDA's first poll or push; to 0 after the cooldown, and never below a floor."""
    told: list[Answers] = [[0.0, 0.0], [1.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert driven(Scaled(spec=spec(tmp_path), replicas=0), told) == [0, 1, 2, 1, 0, 0]
    assert driven(Scaled(spec=spec(tmp_path, least=2), replicas=2), told) == [2] * 6


@pytest.mark.parametrize("replicas", [0, 1, 20])
def test_a_controller_that_is_away_holds(tmp_path: Path, replicas: int) -> None:
    """The last number that Prometheus saw is the floor; without that, too, the replicas that run stay, for hours."""
    scaled = Scaled(spec=spec(tmp_path), replicas=replicas)
    away: Sequence[Answers] = [[None, float(replicas)]] * 40 + [[None, None]] * 400
    assert set(driven(scaled, away)) == {replicas}


# -- numbers of Deployments ------------------------------------------------------------------------


def pod(name: str, *, drained: bool = False, ready: bool = True, going: bool = False) -> dict[str, Any]:
    marks = {names.DRAINING: "1"} if drained else {}
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": {names.WORKLOAD: NAME},
        "annotations": {names.VERSION: VERSION, **marks},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}),
    }
    return {"metadata": meta, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}}


def deleted(folder: Path, number: int, ended: tuple[str, ...], *some: dict[str, Any]) -> list[str]:
    """Return the pods that a plan of this number deletes itself."""
    plan = FleetPlan(served=(replace(ONE, workers=number),), ended=tuple(map(WorkerId, ended)))
    pods = {one["metadata"]["name"]: one for one in some}
    found = [one for one in steps(plan, {}, pods, pools(folder)) if isinstance(one, Delete) and one.kind is POD]
    return [one.name for one in found]


def test_a_smaller_number_takes_the_drained_by_itself(tmp_path: Path) -> None:
    """What KEDA is about to take is left to it; deleted here as well, it would be started anew."""
    two, three = pod("b", drained=True), pod("c", drained=True)
    assert deleted(tmp_path, 1, ("b", "c"), pod("a"), two, three) == []
    assert deleted(tmp_path, 2, ("b", "c"), pod("a"), two, three) == ["c"], "one is replaced, as demand returned"
    assert deleted(tmp_path, 3, ("b", "c"), pod("a"), two, three) == ["b", "c"]
    assert deleted(tmp_path, 2, ("b",), pod("a"), pod("b", drained=True, going=True)) == []


@pytest.mark.parametrize(("number", "expected"), [(0, 1), (1, 1), (3, 3), (99, 8)])
def test_who_serves_is_counted(tmp_path: Path, number: int, expected: int) -> None:
    """Who serves and is not drained stays, one that starts or is drained goes by the number; places bound it."""
    found = [pod("a", drained=True), pod("b"), pod("c", ready=False)]
    pods = {one["metadata"]["name"]: one for one in found}
    assert told_numbers([replace(ONE, workers=number)], pods, pools(tmp_path)) == {NAME: expected}


def test_a_persons_number_is_told_as_it_is(tmp_path: Path) -> None:
    """Without bounds of scaling a smaller number ends who serves; without a device none is told."""
    served = Served(version=VERSION, least=1, workers=1)
    pods = {name: pod(name) for name in ("a", "b")}
    assert told_numbers([served], pods, pools(tmp_path)) == {NAME: 1}
    assert told_numbers([replace(served, gpus=7)], pods, pools(tmp_path)) == {}


def test_a_hand_at_the_number_is_named() -> None:
    """A Deployment that has other replicas than are told is named with the remedy; one that is not there is not."""
    ((name, says),) = unfollowed({"a": 2, "b": 3, "new": 1}, {"a": 2, "b": 7})
    assert name == "b"
    assert says.startswith("b has 7 replicas, and 3 are told: if it was scaled by hand, KEDA sets it back; ")
    assert says.endswith("`kubectl describe scaledobject b` tells why")
