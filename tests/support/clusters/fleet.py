"""A Kubernetes fleet that follows a cluster on paper, and what is waited for in it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.connectors.kubernetes.client import ClientTimeouts, connected
from penstock.connectors.kubernetes.fleet import KubernetesFleet
from penstock.connectors.kubernetes.kinds import RIGHTS
from penstock.connectors.kubernetes.pools import read
from penstock.connectors.kubernetes.writer import WriteIntervals
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.versions import FleetPlan, FleetView, Served
from penstock.domain.ids import VersionId
from tests.support.clusters import pools
from tests.support.clusters.api import KubeApi
from tests.support.patience import patient

VERSION = VersionId("tiny@0123456789ab")
SERVED = FleetPlan(served=(Served(version=VERSION, least=1, workers=1),))
WITHDRAWN = FleetPlan(served=(), withdrawn=(VERSION,))
PACE = WriteIntervals(fresh_s=5.0, resync_s=0.3, held_s=0.2)
RIGHTS_BY_PLURAL = {kind.plural: verbs for kind, verbs in RIGHTS.items()}


@pytest.fixture
def kube_server(tmp_path: Path) -> Iterator[KubeApi]:
    """Serve a cluster with pods on paper, under exactly the rights that we ask for."""
    with KubeApi(rights=RIGHTS_BY_PLURAL) as api:
        api.cluster.on_start = lambda pod: api.pod(pod["metadata"]["name"])
        api.cluster.on_stop = lambda pod: api.ended(pod["metadata"]["name"])
        api.kubeconfig(tmp_path / "kubeconfig")
        pools.file(tmp_path, pools.device("l40s"))
        yield api


@asynccontextmanager
async def following(home: Path, pace: WriteIntervals = PACE) -> AsyncIterator[KubernetesFleet]:
    patience = ClientTimeouts(connect_s=0.5, answer_s=0.5, watch_s=1, late_s=0.5)
    async with connected(str(home / "kubeconfig"), pools.NAMESPACE, patience) as api:
        fleet = KubernetesFleet(api, read(home / "pools.json"), SystemClock(), pace, first_wait_s=0.05)
        async with fleet.following():
            yield fleet


async def until(
    fleet: KubernetesFleet, plan: FleetPlan, check: Callable[[FleetView], object], within_s: float = 10.0
) -> FleetView:
    """Apply as a leader does, over and over, until the view is so."""
    async with asyncio.timeout(patient(within_s)):
        while not check(view := await fleet.view()):
            await fleet.apply(plan)
            await asyncio.sleep(0.02)
    return view


async def standing(fleet: KubernetesFleet, server: KubeApi) -> str:
    """Have the version stand, whole; return its name in the cluster."""
    await until(fleet, SERVED, lambda view: view.running and server.names("scaledobjects"))
    (name,) = server.names("deployments")
    return name
