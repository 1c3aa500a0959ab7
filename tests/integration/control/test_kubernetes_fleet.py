"""The Kubernetes fleet against an API server that refuses, forgets, hangs, and lets others write, over real HTTP."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.connectors.kubernetes import fleet as kubernetes_fleet
from penstock.connectors.kubernetes.client import connected
from penstock.connectors.kubernetes.kinds import DEPLOYMENT
from penstock.connectors.kubernetes.writer import WriteIntervals
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.versions import FleetPlan, Served
from penstock.domain.ids import VersionId, WorkerId
from tests.support.clusters import pools
from tests.support.clusters.api import Call, Fault, KubeApi
from tests.support.clusters.field_owners import Json
from tests.support.clusters.fleet import RIGHTS_BY_PLURAL, SERVED, VERSION, WITHDRAWN, following, standing, until

pytestmark = pytest.mark.integration


def image_of(deployment: Json, image: str) -> None:
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image


async def test_the_rights_are_just_enough(kube_server: KubeApi, tmp_path: Path) -> None:
    """With the rights of the contract alone everything works, and each of them is used."""
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        (pod,) = kube_server.names("pods")
        await until(fleet, FleetPlan(served=SERVED.served, drain=(WorkerId(pod),)), lambda v: v.running[0].draining)
        ended = FleetPlan(served=SERVED.served, ended=(WorkerId(pod),))
        await until(fleet, ended, lambda v: v.running and v.running[0].worker != pod)
        view = await until(fleet, WITHDRAWN, lambda v: not v.placed and not v.running)
    assert view.held == ()
    assert [kube_server.names(plural) for plural in RIGHTS_BY_PLURAL] == [[]] * 4
    asked = {(call.plural, call.verb) for call in kube_server.calls} | {
        (plural, "create") for plural in ("deployments", "poddisruptionbudgets", "scaledobjects")
    }
    assert asked == {(plural, verb) for plural, verbs in RIGHTS_BY_PLURAL.items() for verb in verbs}


async def test_a_new_pod_prefers_a_node_that_holds_its_version(kube_server: KubeApi, tmp_path: Path) -> None:
    """After an eviction a pod prefers the node that served its version, or fetched it ahead; another's pod does not."""
    other, coming = VersionId("other@0123456789ab"), VersionId("coming@0123456789ab")
    more = tuple(Served(version=version, least=1, workers=1) for version in (other, coming))
    all_three = FleetPlan(served=(*(SERVED.served or ()), *more))
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        (first,) = kube_server.names("pods")
        ahead = replace(SERVED, cached={coming: [WorkerId(first)]})
        await until(fleet, ahead, lambda _: fleet._caching.preferred(coming) and fleet._caching.preferred(VERSION))
        node = kube_server.get("pods", first)["spec"]["nodeName"]
        kube_server.evict(first)

        def admitted() -> dict[str, Json]:
            specs = {one: kube_server.get("pods", one) for one in kube_server.names("pods") if one != first}
            versions = {one["metadata"]["annotations"]["penstock.io/version"]: one["spec"] for one in specs.values()}
            return {version: spec for version, spec in versions.items() if not spec.get("schedulingGates")}

        await until(fleet, all_three, lambda _: len(admitted()) == 3)
    for version in (VERSION, coming):
        (term,) = admitted()[version]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert term["preference"] == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    assert "affinity" not in admitted()[other]


async def test_we_apply_our_fields_alone(kube_server: KubeApi, tmp_path: Path) -> None:
    """Every write is a server-side apply in our name without force; the number of pods is never among our fields."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        kube_server.scale(name, 3)
        await until(fleet, SERVED, lambda view: len(view.running) == 3)
        count = len(kube_server.calls)
        await until(fleet, SERVED, lambda _: len(kube_server.calls) > count + 6)
        assert len((await fleet.view()).running) == 3
    applied = [call for call in kube_server.calls if call.verb == "patch" and call.plural != "pods"]
    assert {(call.query["fieldManager"], call.query["force"]) for call in applied} == {("penstock-controller", "false")}
    owners = {
        one["manager"]: one["fieldsV1"] for one in kube_server.get("deployments", name)["metadata"]["managedFields"]
    }
    assert "f:replicas" not in owners["penstock-controller"]["f:spec"]
    assert "f:replicas" in owners["keda-operator"]["f:spec"]


async def test_a_hand_is_held_against_and_said(kube_server: KubeApi, tmp_path: Path) -> None:
    """A Deployment edited by hand is held and told, with the remedy; undone, it is ours again."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        kube_server.edit("deployments", name, lambda it: image_of(it, "worker:mine"), "kubectl-edit")
        view = await until(fleet, SERVED, lambda view: view.held)
        (said,) = view.held
        assert f"Deployment {name} is held" in said
        assert 'conflict with "kubectl-edit"' in said
        assert "undo it, or delete the object" in said
        kept = kube_server.get("deployments", name)["spec"]["template"]["spec"]["containers"][0]["image"]
        assert kept == "worker:mine"
        image = pools.template()["spec"]["containers"][0]["image"]
        kube_server.edit("deployments", name, lambda it: image_of(it, image), "kubectl-edit")
        await until(fleet, SERVED, lambda view: not view.held)


async def test_a_number_by_hand_is_said_until_it_is_set_back(
    kube_server: KubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Deployment scaled by hand is named with the remedy, no pod of it is deleted, and KEDA's own number ends it."""
    monkeypatch.setattr(kubernetes_fleet, "UNFOLLOWED_S", 0.2)
    kube_server.cluster.on_start = lambda pod: kube_server.pod(pod["metadata"]["name"], ready=False)
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        kube_server.edit("deployments", name, lambda it: it["spec"].update(replicas=3), "kubectl")
        (said,) = (await until(fleet, SERVED, lambda view: view.held)).held
        assert said.startswith(f"{name} has 3 replicas, and 1 are told: if it was scaled by hand, KEDA sets it back")
        assert [call for call in kube_server.writes() if call.verb == "delete"] == []
        kube_server.scale(name, 1)
        await until(fleet, SERVED, lambda view: not view.held)


async def test_what_another_replaced_is_gone(kube_server: KubeApi, tmp_path: Path) -> None:
    """409 to a deletion tells that the name is another object's by now: that one stays, and nothing is held for it."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
    async with connected(str(tmp_path / "kubeconfig"), pools.NAMESPACE) as api:
        await api.delete(DEPLOYMENT, name, "the uid of the one before")
    assert kube_server.names("deployments") == [name]


async def test_what_somebody_deleted_is_written_again(kube_server: KubeApi, tmp_path: Path) -> None:
    """A Deployment that a hand deleted stands again, and so does a scaler."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        for plural in ("deployments", "scaledobjects"):
            kube_server._do(lambda plural=plural: kube_server.store.remove(plural, name))  # type: ignore[misc]
        await until(fleet, SERVED, lambda _: kube_server.names("deployments") and kube_server.names("scaledobjects"))


async def test_strangers_are_left_alone(kube_server: KubeApi, tmp_path: Path) -> None:
    """Pods and Deployments without our label are neither seen nor touched, whatever is withdrawn."""
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        with kube_server.store.changed:
            for plural in ("pods", "deployments"):
                one = {**kube_server.store.of(plural)[0], "metadata": {**kube_server.store.of(plural)[0]["metadata"]}}
                one["metadata"] |= {"name": "stranger", "labels": {"app": "stranger"}}
                one["spec"] = {**one["spec"], "replicas": 0} if plural == "deployments" else one["spec"]
                kube_server.store.add(plural, one)
        view = await until(fleet, WITHDRAWN, lambda view: not view.placed and not view.running)
        assert "stranger" not in {running.worker for running in view.running}
    assert kube_server.names("deployments") == ["stranger"]
    assert not [call for call in kube_server.writes() if call.name == "stranger"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_refuses_is_left_alone(kube_server: KubeApi, tmp_path: Path, status: int) -> None:
    """Refused writes are held and said, come seldom, and are made good once the server takes them."""
    kube_server.fault = Fault(status=status, verbs=frozenset({"patch"}))
    async with following(tmp_path) as fleet:
        view = await until(fleet, SERVED, lambda view: view.held)
        assert f"the API server answers {status}" in view.held[0]
        await until(fleet, SERVED, lambda _: len(kube_server.writes()) >= 5)
        waits = [later.at - one.at for one, later in zip(kube_server.writes(), kube_server.writes()[1:], strict=False)]
        assert waits[3] > waits[0]
        kube_server.fault = None
        await standing(fleet, kube_server)
        assert (await fleet.view()).held == ()


async def test_it_comes_back_when_it_is_asked_to(kube_server: KubeApi, tmp_path: Path) -> None:
    """After Retry-After: 1 nothing is written for a second, short as our own wait would be."""
    kube_server.fault = Fault(status=429, verbs=frozenset({"patch"}), retry_after_s=1)
    async with following(tmp_path) as fleet:
        await until(fleet, SERVED, lambda _: len(kube_server.writes()) >= 2)
    first, second = kube_server.writes()[:2]
    assert second.at - first.at >= 1.0


async def test_a_server_that_hangs_holds_up_nobody(kube_server: KubeApi, tmp_path: Path) -> None:
    """View and apply answer at once while the server says nothing, and nothing is known."""
    kube_server.fault = Fault(hangs=True, verbs=frozenset({"list", "watch", "patch"}))
    async with following(tmp_path) as fleet:
        for _ in range(20):
            async with asyncio.timeout(0.1):
                await fleet.apply(SERVED)
                assert not (await fleet.view()).is_known
            await asyncio.sleep(0.02)
        assert kube_server.writes() == []
        kube_server.fault = None
        await standing(fleet, kube_server)


@pytest.mark.parametrize(("status", "verbs"), [(500, {"list", "watch"}), (410, {"list"})])
async def test_an_unknown_cluster_loses_nothing(
    kube_server: KubeApi, tmp_path: Path, status: int, verbs: set[str]
) -> None:
    """While lists and watches fail, what was seen stays seen, is called unknown, and nothing is written or removed."""
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        kube_server.fault = Fault(status=status, verbs=frozenset(verbs))
        kube_server.expire_watches()
        view = await until(fleet, SERVED, lambda view: not view.is_known)
        assert ([one.version for one in view.running], view.placed) == ([VERSION], (VERSION,))
        count = len(kube_server.writes())
        for _ in range(20):
            await fleet.apply(WITHDRAWN)
            await asyncio.sleep(0.02)
        late = [call.verb for call in kube_server.writes()[count:]]
        assert late in ([], ["patch"]), "one of the plan before may be on its way; a deletion is the new plan's"
        kube_server.fault = None
        await until(fleet, SERVED, lambda view: view.is_known)
    assert kube_server.names("deployments")


def _watched(calls: Iterable[Call]) -> set[str]:
    """Return the kinds whose watch was asked for: each ends on its own, and only an ended one can be refused."""
    return {call.plural for call in calls if call.verb == "watch"}


@pytest.mark.parametrize("how", ["in the stream", "at the next watch"])
async def test_an_expired_watch_begins_anew(kube_server: KubeApi, tmp_path: Path, how: str) -> None:
    """After 410 everything is listed again: what came and went in between is known."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        with kube_server.store.changed:
            lists = sum(call.verb == "list" for call in kube_server.calls)
        if how == "in the stream":
            kube_server.scale(name, 2)
            kube_server.expire_watches()
        else:
            asked = len(kube_server.calls)
            kube_server.fault = Fault(verbs=frozenset({"watch"}))
            await until(fleet, SERVED, lambda _: _watched(kube_server.calls[asked:]) >= {"pods", "deployments"})
            kube_server.scale(name, 2)
            with kube_server.store.changed:
                kube_server.store.compact()
            kube_server.fault = None
        await until(fleet, SERVED, lambda view: len(view.running) == 2)
        await until(fleet, SERVED, lambda _: sum(call.verb == "list" for call in kube_server.calls) >= lists + 2)
        kube_server.scale(name, 1)
        await until(fleet, SERVED, lambda view: len(view.running) == 1 and view.is_known)


async def test_a_watch_that_ends_goes_on_where_it_was(kube_server: KubeApi, tmp_path: Path) -> None:
    """A watch that ran out is resumed from its last version: nothing is listed again, nothing is missed."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        watches = sum(call.verb == "watch" for call in kube_server.calls)
        await until(fleet, SERVED, lambda _: sum(call.verb == "watch" for call in kube_server.calls) >= watches + 2)
        kube_server.scale(name, 2)
        await until(fleet, SERVED, lambda view: len(view.running) == 2)
    assert sum(call.verb == "list" for call in kube_server.calls) == 2


async def test_who_drains_goes_first_where_the_number_sinks(kube_server: KubeApi, tmp_path: Path) -> None:
    """A scaler that takes one of two pods takes the one that was told to drain, by Kubernetes' own cost of deletion."""
    async with following(tmp_path) as fleet:
        name = await standing(fleet, kube_server)
        kube_server.scale(name, 2)
        await until(fleet, SERVED, lambda view: len(view.running) == 2)
        stays, goes = sorted(kube_server.names("pods"))
        plan = FleetPlan(served=SERVED.served, drain=(WorkerId(goes),))
        await until(fleet, plan, lambda view: any(one.draining for one in view.running))
        kube_server.scale(name, 1)
        await until(fleet, SERVED, lambda view: len(view.running) == 1)
        assert kube_server.names("pods") == [stays]


async def test_who_loses_our_label_is_ours_no_more(kube_server: KubeApi, tmp_path: Path) -> None:
    """A pod that loses our label is gone for us, and back with it: so does a watch of labels tell."""
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        (pod,) = kube_server.names("pods")
        kube_server.edit("pods", pod, lambda it: it["metadata"]["labels"].pop("app.kubernetes.io/managed-by"), "a-hand")
        await until(fleet, SERVED, lambda view: WorkerId(pod) not in {one.worker for one in view.running})
        back = {"app.kubernetes.io/managed-by": "penstock-controller"}
        kube_server.edit("pods", pod, lambda it: it["metadata"]["labels"].update(back), "a-hand")
        await until(fleet, SERVED, lambda view: WorkerId(pod) in {one.worker for one in view.running})
    assert sum(call.verb == "list" for call in kube_server.calls) == 2, "nothing had to be listed again"


async def test_a_long_list_is_read_whole(kube_server: KubeApi, tmp_path: Path) -> None:
    """More pods than one answer holds are all known, by as many answers as it takes."""
    meta = {"namespace": "penstock", "labels": {"app.kubernetes.io/managed-by": "penstock-controller"}}
    marks = {"annotations": {"penstock.io/version": SERVED.served[0].version}}  # type: ignore[index]
    with kube_server.store.changed:
        for number in range(1200):
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, **marks, "name": f"many-{number:04d}"}}
            kube_server.store.add("pods", {**body, "spec": {}, "status": {"phase": "Running"}})
    async with following(tmp_path) as fleet:
        await until(fleet, FleetPlan(), lambda view: len(view.running) == 1200)
    parts = [
        call.query.get("continue", "") for call in kube_server.calls if (call.verb, call.plural) == ("list", "pods")
    ]
    assert [bool(part) for part in parts] == [False, True, True]


async def test_who_leads_no_more_writes_no_more(kube_server: KubeApi, tmp_path: Path) -> None:
    """A plan counts for a moment: of two controllers only the one that plans writes, and it stops when it stops."""
    async with following(tmp_path) as leader, following(tmp_path, WriteIntervals(fresh_s=0.1, resync_s=0.01)) as other:
        await standing(leader, kube_server)
        kube_server.fault = Fault(status=500, verbs=frozenset({"patch", "delete"}))
        await other.apply(WITHDRAWN)
        await asyncio.sleep(0.3)
        kube_server.fault = None
        count = len(kube_server.writes())
        await asyncio.sleep(0.5)
        assert len(kube_server.writes()) == count
    assert kube_server.names("deployments")


async def test_a_plan_grows_old_while_it_is_done(kube_server: KubeApi, tmp_path: Path) -> None:
    """A leader with an outdated plan, at a slow kube_server, ends with its present call."""
    kube_server.delay_s = 0.2
    async with following(tmp_path, WriteIntervals(fresh_s=0.1)) as fleet:
        await until(fleet, FleetPlan(), lambda view: view.is_known)
        await fleet.apply(SERVED)
        await asyncio.sleep(0.8)
    assert len(kube_server.writes()) <= 1


async def test_a_missing_right_is_said(kube_server: KubeApi, tmp_path: Path) -> None:
    """Without a right of the Role the object is held, others are not, and the remedy is in the words."""
    kube_server.rights = RIGHTS_BY_PLURAL | {"scaledobjects": ()}
    async with following(tmp_path) as fleet:
        view = await until(fleet, SERVED, lambda view: view.held and view.running)
        assert "ScaledObject" in view.held[0]
        assert "Role lacks a right" in view.held[0]
        assert kube_server.names("poddisruptionbudgets")


async def test_an_eviction_is_no_death(kube_server: KubeApi, tmp_path: Path) -> None:
    """A pod that is told to end by its node drains and is replaced; the version is held to have done nothing wrong."""
    kube_server.cluster.on_stop = lambda pod: None
    async with following(tmp_path) as fleet:
        await standing(fleet, kube_server)
        (pod,) = kube_server.names("pods")
        kube_server.evict(pod)
        view = await until(fleet, SERVED, lambda view: len(view.running) == 2)
        assert {one.worker: one.draining for one in view.running}[WorkerId(pod)]
        kube_server.ended(pod)
        view = await until(fleet, SERVED, lambda view: len(view.running) == 1)
        assert view.deaths == ()


async def test_a_version_that_fits_nowhere_is_said(kube_server: KubeApi, tmp_path: Path) -> None:
    """A version that no pool holds is held with words, and others are served."""
    huge = Served(version=VersionId("huge@000000000000"), least=1, workers=1, held_bytes=10**12)
    async with following(tmp_path) as fleet:
        plan = FleetPlan(served=(*(SERVED.served or ()), huge))
        view = await until(fleet, plan, lambda view: view.held and view.running)
        assert "huge@000000000000 needs 931 GiB on 1 GPUs" in view.held[0]


GARBAGE = {
    "empty": b"",
    "text": b"SECRET",
    "list": b"- SECRET",
    "no yaml": b"a: [SECRET",
    "binary": b"\x00\xff",
    "another kind": b"apiVersion: v1\nkind: Config\n",
    "no contexts": b"current-context: a\ncontexts: 3\n",
    "misspelt": b"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    b"clusters: [{name: c, cluster: {server: 'https://x'}}]\nusers: [{name: u, usr: {token: SECRET}}]\n",
    "no server": b"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    b"clusters: [{name: c, cluster: {server: 5}}]\nusers: [{name: u, user: {token: SECRET}}]\n",
    "no authority": b"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    b"clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: SECRET}}]\n"
    b"users: [{name: u, user: {token: SECRET}}]\n",
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
async def test_a_kubeconfig_that_is_none_ends_the_start_in_words(tmp_path: Path, content: bytes) -> None:
    """It ended in a traceback of the client's; now with the file, the remedy, and nothing of what stands in it."""
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    with pytest.raises(CommandError, match=r"cluster can't be reached with .*kubeconfig: ") as refused:
        async with connected(str(file), pools.NAMESPACE):
            pass
    assert "PENSTOCK_KUBECONFIG" in refused.value.do
    assert "SECRET" not in refused.value.what


async def test_no_cluster_ends_the_start(tmp_path: Path) -> None:
    """Outside of a pod and without a kubeconfig there is a clear error with the remedy."""
    with pytest.raises(CommandError, match="cluster can't be reached"):
        async with connected("", pools.NAMESPACE):
            pass
    with pytest.raises(CommandError, match="cluster can't be reached"):
        async with connected(str(tmp_path / "nothing"), pools.NAMESPACE):
            pass
