"""The hot path: an inference request from its headers to the last byte of the answer, in pure ASGI.

The credential is checked before the body is read. An error before the first byte becomes a row of the error table, a
later one an in-band event.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial

from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.app import queries
from penstock.gateway.app.cors import CLOSED, Origins, adding
from penstock.gateway.app.routes import crashed
from penstock.gateway.calls.call import Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred.files import bound_of
from penstock.gateway.oip import rest as oip
from penstock.gateway.oip.rest import InferExchange
from penstock.gateway.openai import head
from penstock.gateway.openai.http_exchange import CountExchange, HttpExchange, HttpReply
from penstock.gateway.openai.parse import COUNTS, check_bounded
from penstock.gateway.openai.services import Corridor, Serve, Services
from penstock.intake.bodies import Bounded
from penstock.intake.direct import EXTENSION, DirectReply
from penstock.intake.plain import PlainReply
from penstock.intake.types import App, Receive, Scope, Send

PATHS: dict[str, Api] = {str(api): api for api in JSON_APIS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(Services):
    counting: Corridor
    rest: App
    responses: Corridor | None = None
    """The corridor of ``/v1/responses`` where answers may be stored; None for the corridor of all."""
    origins: Origins = CLOSED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if b"%" in scope.get("raw_path", b""):
            scope["path"] = head.path(scope["raw_path"])
        make = self._exchange(scope)
        reply = scope.get("extensions", {}).get(EXTENSION)
        if self.origins.allowed and scope["type"] == "http":
            more = self.origins.told(scope["headers"])
            if isinstance(reply, DirectReply):
                reply.decor = lambda: more
            else:
                send = adding(send, more)
        if make is None:
            await self._questions(scope)(scope, receive, send)
            return
        if isinstance(reply, DirectReply):
            await make(scope, receive, reply)
            return
        reply = PlainReply(receive, send, self.limits.write_buffer_bytes)
        await make(scope, receive, reply)
        await reply.end()

    def _questions(self, scope: Scope) -> App:
        return Bounded(
            app=self.rest,
            limits=self.limits,
            body=bound_of(scope),
            intake=self.intake,
            crashed=partial(crashed, self.observer),
        )

    def _exchange(self, scope: Scope) -> "Run | None":
        """Return None for other paths, and for requests that the routes refuse."""
        if scope["type"] != "http" or scope["method"] != "POST" or queries.fault(scope) is not None:
            return None
        path: str = scope["path"]
        if (api := PATHS.get(path)) is not None:
            serve = self._answer if api is not Api.RESPONSES or self.responses is None else self.responses.serve
            return partial(self._run, api, serve)
        if (api := COUNTS.get(path)) is not None:
            return partial(self._count, api)
        where = oip.target(path)
        return None if where is None else partial(self._infer, where)

    async def _run(self, api: Api, serve: Serve, scope: Scope, receive: Receive, reply: HttpReply) -> None:
        await HttpExchange(self, api, scope, receive, reply).run(serve)

    async def _count(self, api: Api, scope: Scope, receive: Receive, reply: HttpReply) -> None:
        await CountExchange(self, api, scope, receive, reply).run(self.counting.serve)

    async def _infer(self, where: tuple[str, str], scope: Scope, receive: Receive, reply: HttpReply) -> None:
        await InferExchange(self, where, scope, receive, reply).run(self.corridor.serve)

    async def _answer(self, progress: Progress, reply: Reply) -> None:
        check_bounded(progress.call.request.api, progress.call.request.cost)
        await self.corridor.serve(progress, reply)


Run = Callable[[Scope, Receive, HttpReply], Coroutine[None, None, None]]
