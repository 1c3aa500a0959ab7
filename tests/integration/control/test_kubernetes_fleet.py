"""The Kubernetes fleet against an API server that refuses, forgets, hangs, and lets others write, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.adapters.kubernetes.client import Patience, connected
from penstock.adapters.kubernetes.fleet import KubernetesFleet
from penstock.adapters.kubernetes.kinds import RIGHTS
from penstock.adapters.kubernetes.pools import read
from penstock.adapters.kubernetes.writer import Pace
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.fleet import FleetPlan, FleetView, Served
from penstock.domain.ids import VersionId, WorkerId
from tests.support import kube_pools
from tests.support.kube_api import Fault, KubeApi
from tests.support.kube_fields import Json

pytestmark = pytest.mark.integration
VERSION = VersionId("tiny@0123456789ab")
SERVED = FleetPlan(served=(Served(version=VERSION, least=1),))
WITHDRAWN = FleetPlan(served=(), withdrawn=(VERSION,))
PACE = Pace(fresh_s=5.0, resync_s=0.3, held_s=0.2)
RIGHTS_BY_PLURAL = {kind.plural: verbs for kind, verbs in RIGHTS.items()}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeApi]:
    """Serve a cluster whose pods run on paper, to whoever has exactly the rights that we ask for."""
    with KubeApi(rights=RIGHTS_BY_PLURAL) as api:
        api.cluster.on_start = lambda pod: api.pod(pod["metadata"]["name"])
        api.cluster.on_stop = lambda pod: api.ended(pod["metadata"]["name"])
        api.kubeconfig(tmp_path / "kubeconfig")
        kube_pools.file(tmp_path, kube_pools.pool("base"))
        yield api


@asynccontextmanager
async def following(home: Path, pace: Pace = PACE) -> AsyncIterator[KubernetesFleet]:
    """Yield a fleet of this cluster."""
    patience = Patience(connect_s=0.5, answer_s=0.5, watch_s=1, late_s=0.5)
    async with connected(str(home / "kubeconfig"), kube_pools.NAMESPACE, patience) as api:
        fleet = KubernetesFleet(api, read(home / "pools.json"), SystemClock(), pace, first_wait_s=0.05)
        async with fleet.following():
            yield fleet


async def until(
    fleet: KubernetesFleet, plan: FleetPlan, check: Callable[[FleetView], object], within_s: float = 10.0
) -> FleetView:
    """Apply as a leader does, over and over, until the view is so."""
    async with asyncio.timeout(within_s):
        while not check(view := await fleet.view()):
            await fleet.apply(plan)
            await asyncio.sleep(0.02)
    return view


async def standing(fleet: KubernetesFleet, server: KubeApi) -> str:
    """Have the version stand, whole; return its name in the cluster."""
    await until(fleet, SERVED, lambda view: view.running and server.names("scaledobjects"))
    (name,) = server.names("deployments")
    return name


def image_of(deployment: Json, image: str) -> None:
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image


async def test_the_rights_are_just_enough(server: KubeApi, tmp_path: Path) -> None:
    """With the rights of the contract alone everything works, and each of them is used."""
    async with following(tmp_path) as fleet:
        await standing(fleet, server)
        (pod,) = server.names("pods")
        await until(fleet, FleetPlan(served=SERVED.served, drain=(WorkerId(pod),)), lambda v: v.running[0].draining)
        ended = FleetPlan(served=SERVED.served, ended=(WorkerId(pod),))
        await until(fleet, ended, lambda v: v.running and v.running[0].worker != pod)
        view = await until(fleet, WITHDRAWN, lambda v: not v.placed and not v.running)
    assert view.held == ()
    assert [server.names(plural) for plural in RIGHTS_BY_PLURAL] == [[]] * 4
    asked = {(call.plural, call.verb) for call in server.calls} | {
        (plural, "create") for plural in ("deployments", "poddisruptionbudgets", "scaledobjects")
    }
    assert asked == {(plural, verb) for plural, verbs in RIGHTS_BY_PLURAL.items() for verb in verbs}


async def test_we_apply_our_fields_alone(server: KubeApi, tmp_path: Path) -> None:
    """Every write is a server-side apply in our name without force; the number of pods is never among our fields."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, server)
        server.scale(name, 3)
        await until(fleet, SERVED, lambda view: len(view.running) == 3)
        count = len(server.calls)
        await until(fleet, SERVED, lambda _: len(server.calls) > count + 6)
        assert len((await fleet.view()).running) == 3
    applied = [call for call in server.calls if call.verb == "patch"]
    assert {(call.query["fieldManager"], call.query["force"]) for call in applied} == {("penstock-controller", "false")}
    owners = {one["manager"]: one["fieldsV1"] for one in server.get("deployments", name)["metadata"]["managedFields"]}
    assert "f:replicas" not in owners["penstock-controller"]["f:spec"]
    assert "f:replicas" in owners["keda-operator"]["f:spec"]


async def test_a_hand_is_held_against_and_said(server: KubeApi, tmp_path: Path) -> None:
    """A Deployment whose fields somebody edited is held and told, with the remedy; undone, it is ours again."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, server)
        server.edit("deployments", name, lambda it: image_of(it, "worker:mine"), "kubectl-edit")
        view = await until(fleet, SERVED, lambda view: view.held)
        (said,) = view.held
        assert f"Deployment {name} is held" in said
        assert 'conflict with "kubectl-edit"' in said
        assert "undo it, or delete the object" in said
        kept = server.get("deployments", name)["spec"]["template"]["spec"]["containers"][0]["image"]
        assert kept == "worker:mine"
        image = kube_pools.template()["spec"]["containers"][0]["image"]
        server.edit("deployments", name, lambda it: image_of(it, image), "kubectl-edit")
        await until(fleet, SERVED, lambda view: not view.held)


async def test_what_somebody_deleted_is_written_again(server: KubeApi, tmp_path: Path) -> None:
    """A Deployment that a hand deleted stands again, and so does a scaler."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, server)
        for plural in ("deployments", "scaledobjects"):
            server._do(lambda plural=plural: server.store.remove(plural, name))  # type: ignore[misc]
        await until(fleet, SERVED, lambda _: server.names("deployments") and server.names("scaledobjects"))


async def test_strangers_are_left_alone(server: KubeApi, tmp_path: Path) -> None:
    """Pods and Deployments without our label are neither seen nor touched, whatever is withdrawn."""
    async with following(tmp_path) as fleet:
        await standing(fleet, server)
        with server.store.changed:
            for plural in ("pods", "deployments"):
                one = {**server.store.of(plural)[0], "metadata": {**server.store.of(plural)[0]["metadata"]}}
                one["metadata"] |= {"name": "stranger", "labels": {"app": "stranger"}}
                one["spec"] = {**one["spec"], "replicas": 0} if plural == "deployments" else one["spec"]
                server.store.add(plural, one)
        view = await until(fleet, WITHDRAWN, lambda view: not view.placed and not view.running)
        assert "stranger" not in {running.worker for running in view.running}
    assert server.names("deployments") == ["stranger"]
    assert not [call for call in server.writes() if call.name == "stranger"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_refuses_is_left_alone(server: KubeApi, tmp_path: Path, status: int) -> None:
    """Refused writes are held and said, come seldom, and are made good once the server takes them."""
    server.fault = Fault(status=status, verbs=frozenset({"patch"}))
    async with following(tmp_path) as fleet:
        view = await until(fleet, SERVED, lambda view: view.held)
        assert f"the API server answers {status}" in view.held[0]
        await until(fleet, SERVED, lambda _: len(server.writes()) >= 5)
        waits = [later.at - one.at for one, later in zip(server.writes(), server.writes()[1:], strict=False)]
        assert waits[3] > waits[0]
        server.fault = None
        await standing(fleet, server)
        assert (await fleet.view()).held == ()


async def test_it_comes_back_when_it_is_asked_to(server: KubeApi, tmp_path: Path) -> None:
    """After Retry-After: 1 nothing is written for a second, short as our own wait would be."""
    server.fault = Fault(status=429, verbs=frozenset({"patch"}), retry_after_s=1)
    async with following(tmp_path) as fleet:
        await until(fleet, SERVED, lambda _: len(server.writes()) >= 2)
    first, second = server.writes()[:2]
    assert second.at - first.at >= 1.0


async def test_a_server_that_hangs_holds_up_nobody(server: KubeApi, tmp_path: Path) -> None:
    """View and apply answer at once while the server says nothing, and nothing is known."""
    server.fault = Fault(hangs=True, verbs=frozenset({"list", "watch", "patch"}))
    async with following(tmp_path) as fleet:
        for _ in range(20):
            async with asyncio.timeout(0.1):
                await fleet.apply(SERVED)
                assert not (await fleet.view()).is_known
            await asyncio.sleep(0.02)
        assert server.writes() == []
        server.fault = None
        await standing(fleet, server)


async def test_an_unknown_cluster_loses_nothing(server: KubeApi, tmp_path: Path) -> None:
    """While lists and watches fail, what was seen stays seen, is called unknown, and nothing is written or removed."""
    async with following(tmp_path) as fleet:
        await standing(fleet, server)
        server.fault = Fault(status=500, verbs=frozenset({"list", "watch"}))
        view = await until(fleet, SERVED, lambda view: not view.is_known)
        assert ([one.version for one in view.running], view.placed) == ([VERSION], (VERSION,))
        count = len(server.writes())
        for _ in range(20):
            await fleet.apply(WITHDRAWN)
            await asyncio.sleep(0.02)
        assert len(server.writes()) == count
        server.fault = None
        await until(fleet, SERVED, lambda view: view.is_known)
    assert server.names("deployments")


@pytest.mark.parametrize("how", ["in the stream", "at the next watch"])
async def test_an_expired_watch_begins_anew(server: KubeApi, tmp_path: Path, how: str) -> None:
    """After 410 everything is listed again: what came and went in between is known."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, server)
        with server.store.changed:
            lists = sum(call.verb == "list" for call in server.calls)
        if how == "in the stream":
            server.scale(name, 2)
            server.expire_watches()
        else:
            server.fault = Fault(verbs=frozenset({"watch"}))
            await until(fleet, SERVED, lambda view: not view.is_known)
            server.scale(name, 2)
            with server.store.changed:
                server.store.compact()
            server.fault = None
        await until(fleet, SERVED, lambda view: len(view.running) == 2)
        await until(fleet, SERVED, lambda _: sum(call.verb == "list" for call in server.calls) >= lists + 2)
        server.scale(name, 1)
        await until(fleet, SERVED, lambda view: len(view.running) == 1 and view.is_known)


async def test_a_watch_that_ends_goes_on_where_it_was(server: KubeApi, tmp_path: Path) -> None:
    """A watch whose time is over is resumed from its last version: nothing is listed again, nothing is missed."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, server)
        watches = sum(call.verb == "watch" for call in server.calls)
        await until(fleet, SERVED, lambda _: sum(call.verb == "watch" for call in server.calls) >= watches + 2)
        server.scale(name, 2)
        await until(fleet, SERVED, lambda view: len(view.running) == 2)
    assert sum(call.verb == "list" for call in server.calls) == 2


async def test_who_leads_no_more_writes_no_more(server: KubeApi, tmp_path: Path) -> None:
    """A plan counts for a moment: of two controllers only the one that plans writes, and it stops when it stops."""
    async with following(tmp_path) as leader, following(tmp_path, Pace(fresh_s=0.1, resync_s=0.01)) as other:
        await standing(leader, server)
        server.fault = Fault(status=500, verbs=frozenset({"patch", "delete"}))
        await other.apply(WITHDRAWN)
        await asyncio.sleep(0.3)
        server.fault = None
        count = len(server.writes())
        await asyncio.sleep(0.5)
        assert len(server.writes()) == count
    assert server.names("deployments")


async def test_a_plan_grows_old_while_it_is_done(server: KubeApi, tmp_path: Path) -> None:
    """A leader whose plan was overtaken by time, at a slow server, ends with the call that it is at."""
    server.delay_s = 0.2
    async with following(tmp_path, Pace(fresh_s=0.1)) as fleet:
        await until(fleet, FleetPlan(), lambda view: view.is_known)
        await fleet.apply(SERVED)
        await asyncio.sleep(0.8)
    assert len(server.writes()) <= 1


async def test_a_missing_right_is_said(server: KubeApi, tmp_path: Path) -> None:
    """Without a right of the Role the object is held, others are not, and the remedy is in the words."""
    server.rights = RIGHTS_BY_PLURAL | {"scaledobjects": ()}
    async with following(tmp_path) as fleet:
        view = await until(fleet, SERVED, lambda view: view.held and view.running)
        assert "ScaledObject" in view.held[0]
        assert "Role lacks a right" in view.held[0]
        assert server.names("poddisruptionbudgets")


async def test_an_eviction_is_no_death(server: KubeApi, tmp_path: Path) -> None:
    """A pod that is told to end by its node drains and is replaced; the version is held to have done nothing wrong."""
    server.cluster.on_stop = lambda pod: None
    async with following(tmp_path) as fleet:
        await standing(fleet, server)
        (pod,) = server.names("pods")
        server.evict(pod)
        view = await until(fleet, SERVED, lambda view: len(view.running) == 2)
        assert {one.worker: one.draining for one in view.running}[WorkerId(pod)]
        server.ended(pod)
        view = await until(fleet, SERVED, lambda view: len(view.running) == 1)
        assert view.deaths == ()


async def test_a_version_that_fits_nowhere_is_said(server: KubeApi, tmp_path: Path) -> None:
    """A version that no pool holds is held with words, and others are served."""
    huge = Served(version=VersionId("huge@000000000000"), least=1, held_bytes=10**12)
    async with following(tmp_path) as fleet:
        plan = FleetPlan(served=(*(SERVED.served or ()), huge))
        view = await until(fleet, plan, lambda view: view.held and view.running)
        assert "huge@000000000000 needs 931 GiB on 1 GPUs" in view.held[0]


async def test_no_cluster_ends_the_start(tmp_path: Path) -> None:
    """Outside of a pod and without a kubeconfig there is a clear error with the remedy."""
    with pytest.raises(CommandError, match="no way to the cluster"):
        async with connected("", kube_pools.NAMESPACE):
            pass
    with pytest.raises(CommandError, match="no way to the cluster"):
        async with connected(str(tmp_path / "nothing"), kube_pools.NAMESPACE):
            pass
