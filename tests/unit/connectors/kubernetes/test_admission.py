"""Which node scaler brings a pod's machine: exactly one, by a stated rule, counted over all versions."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.kubernetes.admission import GIVE_UP_S, Admission, Admit
from penstock.connectors.kubernetes.pools import Device, read
from tests.support.clusters import pools as kube_pools

NOW = 10_000.0
GROUPS, BURST = "asg", "karpenter"


def devices(folder: Path, *some: dict[str, Any]) -> tuple[Device, ...]:
    return read(kube_pools.file(folder, *some)).devices


def pod(version: str, *, scaler: str = "", needed: int = 1, age_s: int = 0, **more: Any) -> dict[str, Any]:  # noqa: ANN401  any field
    """Return a worker's pod: gated without a scaler, admitted ``age_s`` ago with one."""
    at = f"2026-11-27T10:{(3600 - age_s) // 60 % 60:02d}:{(3600 - age_s) % 60:02d}Z"
    meta = {
        "name": "a-pod",
        "creationTimestamp": at,
        "labels": {"penstock.io/device": "l40s", **({"penstock.io/scaler": scaler} if scaler else {})},
        "annotations": {
            "penstock.io/version": f"{version}@0",
            "penstock.io/devices": str(needed),
            **({"penstock.io/admitted-at": str(NOW - age_s)} if scaler else {}),
        },
    }
    return {"metadata": meta, "status": {"phase": "Pending"}, **more}


def admitted(pods: dict[str, Any], some: tuple[Device, ...]) -> dict[str, str]:
    return {one.name: one.scaler for one in Admission(devices=some).admitted(pods, NOW)}


def test_two_versions_share_one_floor(tmp_path: Path) -> None:
    """Finding N6: two versions of eight workers over a floor of 12 took it twice; the rest waited beside idle GPUs."""
    some = devices(tmp_path, kube_pools.device("l40s", groups=12, burst=24))
    pods = {f"{version}-{n}": pod(version, age_s=n) for version in ("chat", "embed") for n in range(8)}
    found = admitted(pods, some)
    assert len(found) == 16
    assert list(found.values()).count(GROUPS) == 12


def test_the_oldest_goes_first(tmp_path: Path) -> None:
    """The last place of the groups goes to the pod that has waited longest."""
    some = devices(tmp_path, kube_pools.device("l40s", groups=1, burst=1))
    assert admitted({"a": pod("chat", age_s=1), "b": pod("chat", age_s=60)}, some) == {"b": GROUPS, "a": BURST}


def test_without_a_place_a_pod_waits_gated(tmp_path: Path) -> None:
    """A pod that no scaler has a place for asks none of them, and goes to the first that has one again."""
    some = devices(tmp_path, kube_pools.device("l40s", groups=4, burst=2))
    pods = {"big": pod("chat", scaler=GROUPS, needed=3), "new": pod("chat", needed=4)}
    assert admitted(pods, some) == {}
    ended = {"big": pods["big"] | {"status": {"phase": "Failed"}}, "new": pods["new"]}
    assert admitted(ended, some) == {"new": GROUPS}


def test_a_scaler_without_machines_is_passed_over(tmp_path: Path) -> None:
    """A pod that got no machine is made anew and goes to the next scaler, for a while; one with a node stays."""
    some = devices(tmp_path, kube_pools.device("l40s", groups=4, burst=4))
    admission, late_s = Admission(devices=some), int(GIVE_UP_S)
    pods = {
        "late": pod("chat", scaler=GROUPS, age_s=late_s),
        "early": pod("chat", scaler=GROUPS, age_s=late_s - 1),
        "runs": pod("chat", scaler=GROUPS, age_s=late_s, status={"startTime": "2026-11-27T10:00:00Z"}),
        "new": pod("chat"),
    }
    assert list(admission.overdue(pods, NOW)) == ["late"]
    assert list(admission.admitted(pods, NOW)) == [Admit(name="new", scaler=BURST)]
    assert list(admission.admitted(pods, NOW + GIVE_UP_S)) == [Admit(name="new", scaler=GROUPS)]


@given(
    sizes=st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from(["", GROUPS, BURST])), max_size=20),
    groups=st.integers(1, 12),
    burst=st.integers(0, 12),
)
def test_no_scaler_is_asked_for_more_than_it_may_bring(
    tmp_path_factory: Any,  # noqa: ANN401  pytest names no public type
    sizes: list[tuple[int, str]],
    groups: int,
    burst: int,
) -> None:
    """Whatever stands and waits, gates open only within the places, and each pod for one scaler at most."""
    some = devices(tmp_path_factory.mktemp("pools"), kube_pools.device("l40s", groups=groups, burst=burst))
    pods = {str(n): pod("chat", scaler=scaler, needed=needed) for n, (needed, scaler) in enumerate(sizes)}
    found = list(Admission(devices=some).admitted(pods, NOW))
    assert len({one.name for one in found}) == len(found)
    for places in some[0].places:
        scaler = places.scaler
        stood = sum(needed for needed, held in sizes if held == scaler)
        opened = sum(sizes[int(one.name)][0] for one in found if one.scaler == scaler)
        assert opened == 0 or stood + opened <= places.most
