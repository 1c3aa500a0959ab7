"""Counts a conversation's tokens without an engine, in a shorter pipeline: identify → resolve → rate → count.

It counts by the version's template and tokenizer. One request is drawn from the caller's rates; nothing is billed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.domain.errors import UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.pipeline import Chooser

Headers = Sequence[tuple[bytes, bytes]]


class Rates(Protocol):
    async def draw_request(self, request: RequestId, who: Principal, version: VersionId) -> Headers:
        """Return headers with the remaining limits; raise ``OverLimit``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    chooser: Chooser
    rates: Rates

    async def serve(self, progress: Progress, reply: Reply) -> None:
        left: list[tuple[bytes, bytes]] = []

        async def draw(version: VersionEntry) -> None:
            left.extend(await self.rates.draw_request(asked.request.id, asked.principal, version.id))

        asked = progress.call
        progress.call = call = await self.chooser.choose(progress, draw)
        if not call.prepared.is_counted:
            raise UnsupportedByModel("only the engine can render this conversation, so it can't be counted beforehand")
        kind = {"object": "response.input_tokens"} if call.request.api is Api.RESPONSES else {}
        body = msgspec.json.encode({**kind, "input_tokens": call.prepared.prompt_tokens})
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        head.append((b"x-penstock-version", call.version.id.encode()))
        head += [(b"x-penstock-auto", call.ruled.rule.encode())] if call.ruled is not None else []
        reply.start(200, [*head, *left])
        reply.write(body)
        reply.finish()
