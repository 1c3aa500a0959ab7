"""The torch engine's process: it loads the handler, listens, and serves until stopped.

Preprocessing has metrics of its own (inputs waiting for a thread, their waits, busy time of threads): a queue for
threads asks for cores, a queue for a batch asks for devices.
"""

import importlib
import logging
import socket
import sys
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import uvicorn
import uvloop

from penstock.domain.clock import SystemClock
from penstock.domain.ids import VersionId
from penstock.domain.models.model import HandlerSettings, Manifest
from penstock.domain.serving.transport import KEPT_ALIVE_S
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.worker.batching.collector import Batcher
from penstock.worker.batching.meters import BatchMeters
from penstock.worker.batching.settings import BatchSettings, Caps
from penstock.worker.engines.torch import loading, memory
from penstock.worker.engines.torch.app import App, Served
from penstock.worker.engines.torch.plan import Serving, of_arguments, preprocessing_threads
from penstock.worker.engines.torch.preparing import BESIDE, Preparing
from penstock.worker.engines.torch.service import Compute, Service
from penstock.worker.engines.torch.tally import Numbers
from penstock.worker.engines.vllm import GATE_MODULE, SHUTDOWN_TIMEOUT_S
from penstock.worker.meter import fill

CATALOGUE = (names.PREPARE_WAITING, names.PREPARE_WAIT_SECONDS, names.PREPARE_SECONDS)


class PrepareMeters:
    def __init__(self, version: VersionId) -> None:
        self._metrics = Metrics(CATALOGUE)
        self._waiting = self._metrics.gauge(names.PREPARE_WAITING).labels(version)
        self._wait_s = self._metrics.histogram(names.PREPARE_WAIT_SECONDS).labels(version)
        self._held_s = self._metrics.histogram(names.PREPARE_SECONDS).labels(version)

    def watch(self, queue: Sized) -> None:
        self._waiting.set_function(lambda: len(queue))

    def prepared(self, waited_s: float, held_s: float) -> None:
        self._wait_s.observe(waited_s)
        self._held_s.observe(held_s)

    def exposition(self) -> bytes:
        return self._metrics.exposition()


SWITCH_S = 0.0005
"""The interpreter's switch interval: operations of a model ask for the interpreter lock, which a busy event loop would
keep ten times as long.
"""


def main(argv: Sequence[str]) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    sys.setswitchinterval(SWITCH_S)
    memory.keep()
    uvloop.run(_serve(of_arguments(argv)))


async def _serve(serving: Serving) -> None:
    torch.set_num_threads(serving.threads)
    manifest = loading.manifest_of(serving.folder)
    handler = loading.load(serving.folder, manifest, serving.device)
    settings, clock, numbers = handler.model.settings, SystemClock(), Numbers()
    served = Served(version=serving.version, settings=settings, labels=loading.labels_of(serving.folder, settings))
    fill("torch")
    threads = preprocessing_threads(serving.threads)
    pool = ThreadPoolExecutor(threads + BESIDE, thread_name_prefix="prepare")
    compute, meters = Compute(handler, numbers, clock), BatchMeters(serving.version)
    preparing = PrepareMeters(serving.version)
    batcher = Batcher(compute, batch_settings(manifest, settings, serving.slo_s), clock, meters.fired, meters.left)
    async with batcher:
        tier = Preparing(pool, threads, clock, preparing.prepared)
        preparing.watch(tier)
        service = Service(serving.version, handler, batcher, tier, numbers)
        app = _gated(App(service, served), meters.exposition, preparing.exposition)
        config = uvicorn.Config(
            app,
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_keep_alive=KEPT_ALIVE_S,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
        )
        await uvicorn.Server(config).serve(sockets=[_listening(serving)])
    pool.shutdown(wait=False, cancel_futures=True)


def batch_settings(manifest: Manifest, settings: HandlerSettings, slo_s: float) -> BatchSettings:
    """Offline items may fill half of a batch's remaining room; its tokens are bounded by the manifest's step."""
    offline = Caps(max_items=max(1, settings.max_batch // 2), max_wait_s=1.0)
    tokens = 0 if settings.item_tokens else manifest.engine.max_num_batched_tokens
    return BatchSettings(max_items=settings.max_batch, max_cost=tokens, slo_s=slo_s, offline=offline)


def _gated(app: App, *pages: Callable[[], bytes]) -> Any:  # noqa: ANN401  the gate is loaded by name, as vLLM loads it
    gate = importlib.import_module(GATE_MODULE).Gate(app)
    gate.tally.beside.extend(pages)
    return gate


def _listening(serving: Serving) -> socket.socket:
    """The socket is made with its protocol number: otherwise asyncio does not set TCP_NODELAY, and an answer's second
    part waits 40 ms for an acknowledgement.
    """
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((serving.host, serving.port))
    return listener
