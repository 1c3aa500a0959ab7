"""Sends warm-up requests to an engine, round by round."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from penstock.domain.errors import EngineError
from penstock.domain.models.model import EngineSettings, Task
from penstock.worker.agent.warmup.shapes import Body, Round, rounds


class EngineRefused(EngineError):
    """The engine refused the request."""


class Ask(Protocol):
    async def __call__(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]: ...


TIMEOUT_S = 120.0


async def work_through(task: Task, engine: EngineSettings, ask: Ask) -> None:
    """Raises errors of ``ask``, except refusals of optional bodies."""
    for each in rounds(task, engine):
        needed = (ask(each.api, body, TIMEOUT_S) for body in each.bodies)
        await asyncio.gather(*needed, *(_unless_refused(ask, each, body) for body in each.optional))


async def _unless_refused(ask: Ask, each: Round, body: Body) -> None:
    with suppress(EngineRefused):
        await ask(each.api, body, TIMEOUT_S)
