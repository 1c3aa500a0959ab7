"""A gateway with the real edge, keyring and server on a real socket, and a toy in the pipeline's place."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from penstock.domain.clock import SystemClock
from penstock.domain.errors import PenstockError
from penstock.domain.fleet.table import EMPTY, VersionEntry
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.credentials import NOBODY, Claim
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Tenant
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.app.asgi import Edge
from penstock.gateway.app.cors import CLOSED, Origins
from penstock.gateway.app.routes import Refusals, application
from penstock.gateway.calls.call import Answer, Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred.access import Routes
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.listener.errors import response_of
from penstock.gateway.openai.services import Facts, unkept
from penstock.gateway.records.making import Early
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.server import EdgeServer, configure
from penstock.intake.types import Refusal
from penstock.supervision.listening import bind

PEPPER = b"p" * 32
SECRET, KEY = mint(TenantId("acme"), pepper=PEPPER, now=0.0)
RING = KeyRing(tenants=(Tenant(id=TenantId("acme"), name="Acme"),), keys=(KEY,))

Serve = Callable[[Call, Reply], Awaitable[Outcome | None]]


async def hello(call: Call, reply: Reply) -> None:
    body = b'{"hello":"world"}'
    reply.start(200, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
    reply.write(body)
    reply.finish()


Keep = Callable[[PenstockError, Early], None]


@dataclass
class Seen:
    """What the toy pipeline and the observer were told."""

    calls: list[Call] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    charged: list[Api | None] = field(default_factory=list)
    """The APIs whose tiers' error budgets the refusals spend."""


class Toy:
    """The toy corridor and observer: one class for both ports."""

    def __init__(self, serve: Serve, version: VersionEntry | None = None) -> None:
        self.seen = Seen()
        self._serve, self._version = serve, version

    async def serve(self, progress: Progress, reply: Reply) -> None:
        if self._version is not None:
            progress.call = replace(progress.call, version=self._version)
        self.seen.calls.append(progress.call)
        outcome = await self._serve(progress.call, reply)
        if outcome is not None:
            progress.answer = Answer(outcome=outcome, usage=UNKNOWN)

    def refused(
        self, error: PenstockError, request_id: RequestId, claim: Claim = NOBODY, *, api: Api | None = Api.CHAT
    ) -> None:
        self.seen.refused.append(error.code)
        self.seen.charged.append(api)
        self.seen.claims.append(claim)

    def answer(self, error: PenstockError, request_id: RequestId) -> Refusal:
        self.refused(error, request_id)
        return response_of(error, request_id)

    def crashed(self, error: BaseException, request_id: RequestId) -> None:
        self.seen.crashed.append(type(error).__name__)


def edge(
    toy: Toy,
    limits: Limits,
    facts: Facts | None = None,
    *,
    keep: Keep = unkept,
    origins: Origins = CLOSED,
    deferred: Sequence[Routes] = (),
) -> Edge:
    """Return the ASGI application around a toy."""
    clock = SystemClock()
    keys = Keyring(peppers=(PEPPER,), salt_key=b"s" * 32, now=clock.now)
    keys.replace(RING)
    counter = itertools.count()
    facts = facts or Facts(table=lambda: EMPTY, missing=lambda: "")
    return Edge(
        corridor=toy,
        counting=toy,
        identity=keys,
        clock=clock,
        limits=limits,
        ids=lambda: f"{next(counter):010d}",
        observer=toy,
        intake=Intake(connections=limits.connections),
        rest=application(
            Refusals(keys, toy, keep), facts, ids=lambda: f"{next(counter):010d}", origins=origins, deferred=deferred
        ),
        origins=origins,
        keep_early=keep,
    )


@dataclass
class Running:
    port: int
    server: EdgeServer
    toy: Toy
    served: "asyncio.Task[None]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running(
    serve: Serve = hello,
    limits: Limits | None = None,
    *,
    change: Callable[[Edge], Edge] = lambda edge: edge,
    origins: Origins = CLOSED,
) -> AsyncIterator[Running]:
    """Run a gateway on a free port in this event loop."""
    limits, toy = limits or Limits(), Toy(serve)
    listener: socket.socket = bind("127.0.0.1", 0)
    made = change(edge(toy, limits, origins=origins))
    config = configure(made, limits, made.intake, answer=toy.answer, ids=lambda: "0")
    server = EdgeServer(config)
    served = asyncio.create_task(server._serve([listener]))
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.005)
    try:
        yield Running(port=listener.getsockname()[1], server=server, toy=toy, served=served)
    finally:
        server.handle_exit(15, None)
        server.handle_exit(15, None)
        await served


REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def head(*extra: bytes, path: bytes = b"/v1/chat/completions", key: str = SECRET, length: int | None = None) -> bytes:
    """Return the head of a POST; ``length`` -1 leaves the length out."""
    lines = [b"POST " + path + b" HTTP/1.1", b"host: x", b"authorization: Bearer " + key.encode()]
    if length != -1:
        lines.append(b"content-length: %d" % (len(REQUEST) if length is None else length))
    return b"\r\n".join((*lines, *extra)) + b"\r\n\r\n"
