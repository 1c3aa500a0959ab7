"""The host of the workers, by setting: this machine or the controller's cluster, each with its planner."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from penstock.apps import slos
from penstock.apps.keys import provide_worker_key
from penstock.apps.scales import bounds_of
from penstock.connectors.process.fleet import HostConfig, LocalFleet
from penstock.control.autoscaler.autoscaler import ScaleSettings
from penstock.control.fleet.orders import Host
from penstock.control.fleet.plan import plan
from penstock.control.fleet.versions import plan_versions
from penstock.control.pool.packing import PoolPolicy
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.versions import FleetPlan
from penstock.domain.ids import VersionId, WorkerId
from penstock.scaling.room import Machine
from penstock.settings import environment_of_workers
from penstock.settings.processes import ControllerSettings, FleetKind
from penstock.worker.engines import device

WorkerCommand = Callable[[WorkerId, VersionId], Sequence[str]]
Tell = Callable[[Mapping[str, int]], None]
_BEYOND_GRACE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    host: Host
    plan: Callable[..., FleetPlan]
    pool: PoolPolicy
    scale: ScaleSettings
    namespace: str = ""
    """Of the cluster's objects, of which KEDA asks; empty on one machine."""
    tells: Callable[[Tell], None] = lambda _: None
    """Names what hears the replicas of each Deployment."""


@asynccontextmanager
async def hosted(settings: ControllerSettings, command: WorkerCommand) -> AsyncIterator[Hosted]:
    if settings.fleet is FleetKind.LOCAL:
        pool = PoolPolicy(limit_bytes=settings.pooled_bytes, lease_s=settings.lease_s)
        scale = replace(_scale(settings), machine=_machine())
        yield Hosted(host=_local(settings, command), plan=plan, pool=pool, scale=scale)
        return
    async with _cluster(settings) as found:
        yield found


def _scale(settings: ControllerSettings) -> ScaleSettings:
    found = bounds_of(settings)
    return ScaleSettings(tiers=slos.load(), bounds=found.versions, gateways=found.gateways, lease_s=settings.lease_s)


def _machine() -> Machine | None:
    """Return this machine's cores and memory; None if it has a GPU, since the pool then limits engines."""
    if device.has_gpu(device.names()):
        return None
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(cores=len(os.sched_getaffinity(0)), memory_bytes=memory_bytes)


def _local(settings: ControllerSettings, command: WorkerCommand) -> LocalFleet:
    host = HostConfig(
        run=settings.paths.run,
        logs=settings.paths.logs,
        command=partial(_provided, settings, command),
        environment=environment_of_workers(settings),
        grace_s=settings.drain_grace_s + _BEYOND_GRACE_S,
    )
    return LocalFleet(host, SystemClock())


def _provided(
    settings: ControllerSettings, command: WorkerCommand, worker: WorkerId, version: VersionId
) -> Sequence[str]:
    provide_worker_key(settings, worker, version)
    return command(worker, version)


@asynccontextmanager
async def _cluster(settings: ControllerSettings) -> AsyncIterator[Hosted]:
    """Yield the cluster. A worker of it never sleeps: its pod holds a GPU that no other could use.

    The cluster's client is imported only here, since a single machine needs none.
    """
    try:
        from penstock.connectors.kubernetes import client, fleet, pools
    except ModuleNotFoundError as error:
        do = "Install it: pip install 'penstock[core,kubernetes]'."
        raise CommandError("The Kubernetes client is not installed.", do=do) from error
    if not settings.pools_file:
        raise CommandError("No pools are named.", do="Name the infrastructure's file: PENSTOCK_POOLS_FILE.")
    shipped = pools.read(Path(settings.pools_file))
    async with client.connected(settings.kubeconfig, shipped.namespace) as api:
        host = fleet.KubernetesFleet(api, shipped, SystemClock())
        scale = _scale(settings)
        scale = replace(scale, bounds=tuple(replace(one, parked=0) for one in scale.bounds))
        async with host.following():
            yield Hosted(
                host=host,
                plan=plan_versions,
                pool=PoolPolicy(),
                scale=scale,
                namespace=shipped.namespace,
                tells=partial(setattr, host, "tell"),
            )
