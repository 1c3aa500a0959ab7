"""Composition root of a worker: one agent from the settings."""

import asyncio
import os
import random
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from penstock.apps import peers, slos
from penstock.apps.keys import check_files, worker_secrets
from penstock.apps.stores import open_store, open_verifier
from penstock.domain.clock import SystemClock
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Runtime
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.keys import key_mark
from penstock.settings import given_devices
from penstock.settings.processes import WorkerSettings
from penstock.supervision import exposition
from penstock.supervision.files import read_if_there
from penstock.supervision.listening import check_free, url_at, url_of
from penstock.telemetry import log_files, logs
from penstock.tls.identity import Role
from penstock.worker.agent import wire
from penstock.worker.agent.agent import Agent
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.phases import PhaseMemory
from penstock.worker.agent.ports import AgentConfig, Ports
from penstock.worker.agent.running import RunIntervals
from penstock.worker.artifacts.cache import NodeCache
from penstock.worker.artifacts.fetch import Fetcher, digest_of
from penstock.worker.artifacts.node import Copy, Node
from penstock.worker.engines import compiled, device
from penstock.worker.engines.plan import Certificate, LaunchPlan, for_engine
from penstock.worker.engines.process import EngineFiles, Forking, Launcher, Quickest, Spawning
from penstock.worker.engines.torch.plan import Serving
from penstock.worker.engines.torch.plan import arguments as arguments_of_torch
from penstock.worker.engines.vllm import Place, arguments, environment, threads_for
from penstock.worker.gate_config import GateConfig

T = TypeVar("T")


def main(settings: WorkerSettings, version: str, worker: WorkerId) -> None:
    """Run until drained; exit with 1 if it failed, with 2 if it was forced."""
    logs.configure("worker", level=settings.log_level)
    check_files(settings, WorkerSettings)
    check_free(settings.host, settings.worker_port, "PENSTOCK_WORKER_PORT")
    check_free(settings.host, settings.status_port, "PENSTOCK_STATUS_PORT")
    code = asyncio.run(_run(settings, VersionId(version), worker))
    if code:
        raise SystemExit(code)


async def _run(settings: WorkerSettings, version: VersionId, worker: WorkerId) -> int:
    home = Workplace(settings, worker)
    with closing(wire.reserve(settings.host, settings.worker_port)) as port, closing(home.forking()) as forking:
        place = home.place(port.getsockname()[1])
        try:
            return await Agent(home.config(version, place), home.ports(version, place, forking)).run()
        finally:
            exposition.hide(settings.paths.run)


class Workplace:
    def __init__(self, settings: WorkerSettings, worker: WorkerId) -> None:
        self._settings, self._worker = settings, worker
        self._digests: dict[VersionId, str] = {}  # asked for once: a sound copy here needs no store
        self._paths = settings.paths
        self._engines = self._paths.run / "engines"
        self._engines.mkdir(parents=True, exist_ok=True)
        self._paths.logs.mkdir(parents=True, exist_ok=True)
        compiled.own(settings.compiled)
        self.device = device.choose(settings.device, device.names(), given_devices())
        self.threads = threads_for(len(os.sched_getaffinity(0)))
        self._files = EngineFiles(
            plan=self._engines / f"{worker}.plan",
            log=self._paths.logs / f"{log_files.ENGINE}{worker}.log",
            pid=self._engines / f"{worker}.pid",
        )
        self._secrets = worker_secrets(settings, worker)
        self._mutual = peers.mutual(settings, Role.WORKER, SystemClock())
        log_files.prune(self._paths.logs, log_files.ENGINE, self._engine_lives, log_files.LogBounds())

    def _engine_lives(self, worker: str) -> bool:
        return log_files.is_alive(self._engines / f"{worker}.pid")

    def place(self, port: int) -> Place:
        return Place(
            host=self._settings.host,
            port=port,
            device=self.device,
            threads=self.threads,
            compiled=str(self._settings.compiled),
            sleeps=self._settings.pool_bytes > 0,
        )

    def config(self, version: VersionId, place: Place) -> AgentConfig:
        ours = self._settings
        return AgentConfig(
            worker=self._worker,
            version=version,
            url=_url(ours, place, secure=self._mutual is not None),
            zone=ours.zone,
            pools=ours.pools,
            device=self.device,
            key_mark=key_mark(self._secrets.ticket_key),
            status_host=ours.host,
            status_port=ours.status_port,
            files=self._files,
            heartbeat_s=ours.heartbeat_s,
            drain_grace_s=ours.grace_s,
            may_be_taken=ours.announced_s > 0,
            is_pooled=ours.pool_bytes > 0,
            pace=RunIntervals(
                look_every_s=min(1.0, ours.probe_every_s),
                probe_every_s=ours.probe_every_s,
                probe_timeout_s=ours.probe_timeout_s,
            ),
        )

    def ports(self, version: VersionId, place: Place, forking: Forking) -> Ports:
        clock = SystemClock()
        return Ports(
            obtain=lambda version, watch: self._node(version, lambda node, digest: node.obtain(digest, watch)),
            ahead=lambda version: self._node(version, Node.ahead),
            plan=lambda copy: self._plan(version, place, copy),
            launcher=self._launcher(forking),
            client=self._gate(version, place),
            controller=self._controller,
            tls=partial(self._mutual.client, Role.CONTROLLER) if self._mutual else None,
            certificate=self._mutual.now if self._mutual else None,
            bearer=self._secrets.bearer,
            memory=PhaseMemory(self._paths.run / "phases"),
            clock=clock,
            chance=random.Random(),
            shown=lambda status_port: exposition.show(self._paths.run, url_of(self._settings.host, status_port)),
        )

    def _gate(self, version: VersionId, place: Place) -> GateClient:
        return GateClient(
            url=url_of(place.host, place.port, secure=self._mutual is not None),
            version=version,
            ticket_key=self._secrets.ticket_key,
            clock=SystemClock(),
            tls=partial(self._mutual.client, Role.WORKER) if self._mutual else None,
        )

    def forking(self) -> Forking:
        shared = self._settings.zygote_socket
        own = self._engines / f"{self._worker}.zygote"
        return Forking(
            address=Path(shared) if shared else own,
            own=not shared,
            log=self._files.log,
            compiled=str(self._settings.compiled),
        )

    def _launcher(self, forking: Forking) -> Launcher:
        if self._settings.engine_zygote == "off" or self.device != "cpu":
            return Spawning()
        forking.prepare()
        return Quickest(
            forking=forking,
            spawning=Spawning(),
            on_fallback=lambda reason: logs.logger().warning("engine_not_forked", worker=self._worker, reason=reason),
        )

    def _plan(self, version: VersionId, place: Place, copy: Copy) -> LaunchPlan:
        device.check_ranks(copy.manifest.engine.tensor_parallel_size, place.device, device.names())
        return LaunchPlan(
            argv=_arguments(version, copy, place),
            runtime=copy.manifest.runtime,
            environment=environment(place, copy.manifest.engine),
            gate=for_engine(
                GateConfig(
                    worker=self._worker,
                    version=version,
                    ticket_key=self._secrets.ticket_key.hex(),
                    max_num_seqs=copy.manifest.engine.max_num_seqs,
                ),
                copy.manifest,
            ),
            forkable=place.device == "cpu",
            tls=self._certificate,
        )

    @property
    def _certificate(self) -> Certificate | None:
        files = self._mutual and self._mutual.files
        if not files:
            return None
        certificate, key, authorities = (
            str(file.absolute()) for file in (files.certificate, files.key, files.authorities)
        )
        return Certificate(certificate=certificate, key=key, authorities=authorities)

    def _node(self, version: VersionId, ask: Callable[[Node, str], T]) -> T:
        store, clock = open_store(self._settings), SystemClock()
        digest = self._digests.get(version) or digest_of(version, store.signed)
        self._digests[version] = digest
        node = Node(
            source=store,
            cache=NodeCache(self._settings.copies, budget_bytes=self._settings.node_cache_bytes),
            fetcher=Fetcher(store, clock),
            verifier=open_verifier(self._settings),
        )
        return ask(node, digest)

    def _controller(self) -> str:
        return self._settings.controller_url or read_if_there(self._paths.controller_address)


def _arguments(version: VersionId, copy: Copy, place: Place) -> tuple[str, ...]:
    manifest = copy.manifest
    if manifest.runtime is Runtime.VLLM:
        return arguments(version, manifest, copy.folder, place)
    return arguments_of_torch(
        Serving(
            version=version,
            folder=copy.folder,
            host=place.host,
            port=place.port,
            device=place.device,
            threads=place.threads,
            slo_s=slos.load()[manifest.tier].within_s(Indicator.LATENCY),
        )
    )


def _url(settings: WorkerSettings, place: Place, *, secure: bool) -> str:
    return url_at(settings.advertise or place.host, place.port, secure=secure)
