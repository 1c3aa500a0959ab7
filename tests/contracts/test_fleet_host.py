"""The host of the workers: the local fleet and Kubernetes keep the same promises, each under its own policy.

A `Site` is one host with the planner that drives it, and what stands outside of it: processes of this machine, or pods
that a test's node runs on paper.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock.connectors.kubernetes.client import connected
from penstock.connectors.kubernetes.fleet import KubernetesFleet
from penstock.connectors.kubernetes.pools import read
from penstock.connectors.process import identity
from penstock.connectors.process.fleet import HostConfig, LocalFleet
from penstock.connectors.process.records import Records
from penstock.control.fleet.orders import Host
from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.fleet.versions import plan_versions
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.report import Load
from tests.support.clusters import pools as kube_pools
from tests.support.clusters.api import KubeApi
from tests.support.patience import patient
from tests.support.samples import control_plane as things

pytestmark = pytest.mark.integration
OBEYS = "import signal, time; signal.signal(15, lambda *_: exit(0)); print('up', flush=True); time.sleep(60)"
VERSION = things.version("tiny")
OTHER = things.version("other")
POLICY = FleetPolicy()


class Site:
    """One host, its planner, and what stands outside of it."""

    def __init__(
        self, make: Callable[[], Host], planner: Callable[..., FleetPlan], kill: Callable[[str], None]
    ) -> None:
        self._make, self._planner, self.kill = make, planner, kill
        self.host = make()
        self.wanted: dict[str, Deployment] = {}
        self.targets: dict[VersionId, Target] = {}
        self.busy: set[WorkerId] = set()
        self.draining: set[WorkerId] = set()

    def another(self) -> Host:
        """Return a host of the next controller, in the same place."""
        return self._make()

    async def tick(self) -> FleetView:
        """Plan and apply once, with workers that report; a draining one has no stream left."""
        view = replace(await self.host.view(), targets=self.targets)
        deployments = tuple(self.wanted.values())
        catalogue = Catalogue(versions=(VERSION, OTHER), deployments=deployments)
        at = SystemClock().now()
        seen = [Seen(report=self._report(one), at=at) for one in view.running]
        found = self._planner(catalogue, seen, view, at, POLICY)
        if not found.is_empty:
            await self.host.apply(found)
        return view

    def _report(self, one: Running) -> WorkerReport:
        state = WorkerState.DRAINING if one.draining else WorkerState.READY
        load = Load(running=1 if one.worker in self.busy else 0)
        return replace(things.report(one.worker, one.version, state), load=load)

    async def until(self, check: Callable[[FleetView], object]) -> FleetView:
        async with asyncio.timeout(patient(10.0)):
            while not check(view := await self.tick()):  # noqa: ASYNC110  nothing signals what is waited for
                await asyncio.sleep(0.02)
        return view


@pytest.fixture(params=["local", "kubernetes"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """Yield a site of each kind, and leave nothing of it."""
    async with AsyncExitStack() as stack:
        if request.param == "local":
            yield _local(tmp_path, stack)
        else:
            yield await _cluster(tmp_path, stack)


def _local(home: Path, stack: AsyncExitStack) -> Site:
    config = HostConfig(
        run=home / "run", logs=home / "logs", command=lambda worker, _: (sys.executable, "-c", OBEYS, worker)
    )
    fleets: list[LocalFleet] = []

    def make() -> LocalFleet:
        fleets.append(LocalFleet(config, SystemClock()))
        return fleets[-1]

    def end() -> None:
        for one in Records(home / "run" / "workers").all():
            identity.kill_group(one.pid, one.start)
        for child in (child for fleet in fleets for child in fleet._children.values()):
            child.wait()

    def kill(worker: str) -> None:
        (record,) = (one for one in Records(home / "run" / "workers").all() if one.worker == worker)
        identity.send(record.pid, record.start, signal.SIGKILL)

    stack.callback(end)
    return Site(make, plan, kill)


async def _cluster(home: Path, stack: AsyncExitStack) -> Site:
    server = stack.enter_context(KubeApi())
    server.cluster.on_start = lambda pod: server.pod(pod["metadata"]["name"])
    server.cluster.on_stop = lambda pod: server.ended(pod["metadata"]["name"])
    api = await stack.enter_async_context(connected(str(server.kubeconfig(home / "kubeconfig")), kube_pools.NAMESPACE))
    pools = read(kube_pools.file(home))
    waiting: list[KubernetesFleet] = []

    def make() -> KubernetesFleet:
        waiting.append(KubernetesFleet(api, pools, SystemClock(), first_wait_s=0.05))
        return waiting[-1]

    site = Site(make, plan_versions, partial(server.pod, restarts=1))
    for fleet in (waiting[0], make()):
        await stack.enter_async_context(fleet.following())
        fleet.tell = partial(_scaled, server)
    site.another = lambda: waiting[1]  # type: ignore[method-assign]
    return site


def _scaled(server: KubeApi, numbers: Mapping[str, int]) -> None:
    """Bring Deployments to their numbers, as KEDA and its HPA do."""
    for name, number in numbers.items():
        if name in server.names("deployments") and server.get("deployments", name)["spec"].get("replicas") != number:
            server.scale(name, number)


def wants(site: Site, replicas: int, **more: object) -> None:
    site.wanted[VERSION.id] = Deployment(version=VERSION.id, replicas=replicas, **more)  # type: ignore[arg-type]


async def test_what_is_wanted_comes_and_is_seen(site: Site) -> None:
    """Workers of a wanted version come, in the wanted number at least, and none drains."""
    wants(site, 2)
    view = await site.until(lambda view: len(view.running) == 2)
    assert [(one.version, one.draining) for one in view.running] == [(VERSION.id, False)] * 2
    assert all(abs(one.started_at - SystemClock().now()) < 10 for one in view.running)
    assert (view.is_known, view.held, view.deaths) == (True, (), ())


async def test_what_stands_is_not_brought_twice(site: Site) -> None:
    """The same wish again changes nothing."""
    wants(site, 1)
    (before,) = (await site.until(lambda view: view.running)).running
    for _ in range(20):
        assert [one.worker for one in (await site.tick()).running] == [before.worker]


async def test_a_version_that_is_wanted_no_more_goes(site: Site) -> None:
    """Its workers drain and end, those of others stay, and none of it is a death."""
    wants(site, 1)
    site.wanted[OTHER.id] = Deployment(version=OTHER.id, replicas=1)
    await site.until(lambda view: len(view.running) == 2)
    wants(site, 0)
    view = await site.until(lambda view: len(view.running) == 1 and VERSION.id not in view.placed)
    assert ([one.version for one in view.running], view.deaths) == ([OTHER.id], ())


async def test_a_worker_that_is_named_is_replaced(site: Site) -> None:
    """A worker named for renewal is gone in the end, and as many as before serve."""
    wants(site, 2)
    first, second = (await site.until(lambda view: len(view.running) == 2)).running
    wants(site, 2, renew=(first.worker,))
    view = await site.until(
        lambda view: len(view.running) == 2 and first.worker not in {one.worker for one in view.running}
    )
    assert second.worker in {one.worker for one in view.running}
    assert view.deaths == ()


async def test_all_workers_are_renewed(site: Site) -> None:
    """Workers from before the moment of renewal are replaced by others, all of them."""
    wants(site, 2)
    old = {one.worker for one in (await site.until(lambda view: len(view.running) == 2)).running}
    await asyncio.sleep(0.01)
    wants(site, 2, renew_before=SystemClock().now())
    view = await site.until(lambda view: len(view.running) == 2 and not old & {one.worker for one in view.running})
    assert view.deaths == ()


async def test_a_death_is_noticed(site: Site) -> None:
    """A worker that ended without having been told to is a death of its version, once."""
    wants(site, 1)
    (running,) = (await site.until(lambda view: view.running)).running
    site.kill(running.worker)
    view = await site.until(lambda view: view.deaths)
    assert [(death.worker, death.version) for death in view.deaths] == [(running.worker, VERSION.id)]
    assert len((await site.until(lambda view: view.running)).deaths) == 1


async def test_another_host_sees_the_same(site: Site) -> None:
    """The next controller's host sees the workers of the one before."""
    wants(site, 2)
    view = await site.until(lambda view: len(view.running) == 2)
    other = site.another()
    async with asyncio.timeout(patient(5.0)):
        while (found := await other.view()).running != view.running:  # noqa: ASYNC110  nothing signals it
            await asyncio.sleep(0.02)
    assert found.deaths == ()


async def test_orders_for_strangers_are_nothing(site: Site) -> None:
    """Draining an absent worker does no harm."""
    wants(site, 1)
    before = (await site.until(lambda view: view.running)).running
    await site.host.apply(FleetPlan(drain=(WorkerId("stranger"),)))
    assert (await site.until(lambda view: view.running)).running == before


async def settled(site: Site, number: int) -> list[WorkerId]:
    """Return this many workers once they are the same for twenty ticks; what a host starts beyond them is named."""
    found: list[list[WorkerId]] = []

    def is_settled(view: FleetView) -> bool:
        found.append([one.worker for one in view.running])
        surplus = tuple(one.worker for one in view.running[number:] if not one.draining)
        site.targets = {VERSION.id: Target(version=VERSION.id, workers=number, ended=surplus)}
        return len(found[-1]) == number and found[-20:] == [found[-1]] * 20

    await site.until(is_settled)
    return found[-1]


async def test_a_number_that_grows_is_there(site: Site) -> None:
    """A scaled version has its target's number of workers, whatever a person deployed; who serves stays."""
    wants(site, 2)
    before = await settled(site, 1)
    assert set(before) < set(await settled(site, 3))


async def test_a_smaller_number_ends_the_named_and_no_other(site: Site) -> None:
    """The idle worker that is named goes, and the others stay, busy or not; no end is a death, and none comes anew."""
    wants(site, 1)
    first, second, third = await settled(site, 3)
    site.busy = {first}
    site.targets = {VERSION.id: Target(version=VERSION.id, workers=2, cordoned=frozenset({second}), ended=(second,))}
    await site.until(
        lambda view: second in {one.worker for one in view.running if one.draining} or len(view.running) < 3
    )
    site.targets = {VERSION.id: Target(version=VERSION.id, workers=2)}
    view = await site.until(lambda view: len(view.running) == 2)
    for _ in range(20):
        view = await site.tick()
        assert {one.worker for one in view.running} == {first, third}
    assert view.deaths == ()


async def test_a_cordoned_worker_with_a_stream_stays(site: Site) -> None:
    """Out of the table it serves its stream to the end: it is counted in the number, and nothing ends it."""
    wants(site, 1)
    first, second = await settled(site, 2)
    site.busy = {first, second}
    site.targets = {VERSION.id: Target(version=VERSION.id, workers=2, cordoned=frozenset({second}))}
    for _ in range(20):
        assert {one.worker for one in (await site.tick()).running} == {first, second}
