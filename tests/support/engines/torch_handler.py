"""A torch engine in this process: a small handler behind the real app, service and batcher; no gate, no agent."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from penstock.domain.clock import SystemClock
from penstock.domain.errors import InvalidField
from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import Datatype, TensorSpec
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.collector import Batcher
from penstock.worker.batching.settings import BatchSettings
from penstock.worker.engines.torch.app import App, Served
from penstock.worker.engines.torch.handler import Features, Given, Handler, Model, Prepared
from penstock.worker.engines.torch.preparing import BESIDE, Preparing
from penstock.worker.engines.torch.service import Compute, Service
from penstock.worker.engines.torch.tally import Numbers
from penstock.worker.gate_config import TICKET
from penstock.worker.meter import Meter, current
from penstock.worker.share import Share

VERSION = VersionId("toy@0123456789ab")
SETTINGS = HandlerSettings(
    name="handler.py",
    inputs=(
        TensorSpec(name="text", datatype=Datatype.BYTES, shape=(-1,)),
        TensorSpec(name="x", datatype=Datatype.FP32, shape=(-1, 2)),
    ),
    outputs=(TensorSpec(name="scores", datatype=Datatype.FP32, shape=(-1, 2)),),
    max_batch=8,
)


class Toy(Handler):
    """Scores a text by its length and its spaces; ``bad`` is refused, ``boom`` breaks the model, ``nan`` is none."""

    def preprocess(self, given: Given) -> Prepared:
        if isinstance(given, dict):
            return Prepared(features={"x": given["x"]}, tokens=1)
        text = given.decode() if isinstance(given, bytes) else str(given)
        if text == "bad":
            raise InvalidField("text is bad", param="text")
        if text == "fault":
            raise ValueError(text)
        first = {"boom": -1.0, "nan": float("nan")}.get(text, float(len(text)))
        return Prepared(features={"x": torch.tensor([first, float(text.count(" "))])}, tokens=len(text))

    def forward(self, batch: Features) -> Features:
        if bool((batch["x"] == -1.0).any()):
            raise RuntimeError("boom")
        return {"scores": batch["x"]}

    def example(self) -> Given:
        return "an example"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  whatever JSON holds
        return json.loads(self.body)


class Threads(ThreadPoolExecutor):
    """Threads of the CPU tier, and how often one of them was asked for something."""

    begun = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":  # noqa: ANN401  as above it
        self.begun += 1
        return super().submit(fn, *args, **kwargs)


@dataclass
class Engine:
    """An app to be asked; ``meters`` are those of the requests, in order."""

    app: App
    numbers: Numbers
    threads: Threads
    meters: list[Meter] = field(default_factory=list)

    async def post(
        self,
        path: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        *,
        tenant: str = "t",
        share: Share | None = None,
        time_s: float = 60.0,
    ) -> Answer:
        """Send a body (JSON, or bytes as they are) behind a ticket, and return the answer."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent: list[Any] = []
        waiting: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": raw}]

        async def receive() -> MutableMapping[str, Any]:
            if not waiting:
                await asyncio.get_running_loop().create_future()
            return waiting.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        self.meters.append(Meter())
        self.meters[-1].share = share
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            TICKET: ticket(tenant, time_s),
        }
        putting = current.set(self.meters[-1])
        try:
            await self.app(scope, receive, send)
        finally:
            current.reset(putting)
        head, *parts = sent
        found = {name.decode(): value.decode() for name, value in head["headers"]}
        return Answer(head["status"], found, b"".join(part["body"] for part in parts))


def ticket(tenant: str, time_s: float = 60.0) -> Ticket:
    """Return a ticket that is good for a while."""
    return Ticket(
        request=RequestId("r"),
        tenant=TenantId(tenant),
        standing=Standing.INTERACTIVE,
        weight=1,
        deadline_at=SystemClock().now() + time_s,
        prompt_tokens=1,
        expected_output_tokens=0,
    )


def model(settings: HandlerSettings = SETTINGS, folder: Path = Path()) -> Model:
    """Return what a handler is made with."""
    return Model(folder=folder, settings=settings, device=torch.device("cpu"), dtype=torch.float32, max_tokens=64)


@asynccontextmanager
async def running(handler: Handler | None = None, labels: Sequence[str] = ()) -> AsyncIterator[Engine]:
    """Yield an engine of this handler, by default the toy."""
    handler = handler or Toy(model())
    clock, numbers = SystemClock(), Numbers()
    settings = handler.model.settings
    with Threads(1 + BESIDE) as pool:
        async with Batcher(Compute(handler, numbers, clock), BatchSettings(max_items=settings.max_batch), clock) as own:
            served = Served(version=VERSION, settings=settings, labels=tuple(labels))
            service = Service(VERSION, handler, own, Preparing(pool, 1, clock), numbers)
            yield Engine(App(service, served), numbers, pool)


def asked(*inputs: dict[str, Any], **more: object) -> tuple[bytes, dict[str, str]]:
    """Return a body in the protocol's binary form, and its header; ``data`` of an input is what stands behind."""
    told = [{"parameters": {"binary_data_size": len(one.get("data", b""))}, **one, "data": None} for one in inputs]
    raw = json.dumps({"inputs": told, **more}).encode()
    return raw + b"".join(one.get("data", b"") for one in inputs), {"inference-header-content-length": str(len(raw))}


def told_by(answer: Answer) -> tuple[dict[str, Any], bytes]:
    """Return the description of an answer's tensor, and its bytes."""
    head = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.body[:head])["outputs"]
    return output, answer.body[head:]
