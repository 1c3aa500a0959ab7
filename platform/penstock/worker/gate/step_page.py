"""The agent's order about steps: it reads the engine's step log, and tells the gate the model that it made of it."""

import json

import msgspec

from penstock.domain.models.steps import StepModel
from penstock.worker.engines import step_log
from penstock.worker.gate.asgi import OK, Scope
from penstock.worker.gate.queueing.forecast import Forecast

PATH = "/penstock/steps"
_NO_LOG = 404


class _Asked(msgspec.Struct):
    forget: bool = False
    """Whether the log begins anew."""
    learned: StepModel | None = None
    """The model that the gate predicts with from now on."""


async def answer(forecast: Forecast, scope: Scope, body: bytes) -> tuple[int, bytes]:
    """Return the step log as JSON; 404 from an engine without one."""
    asked = msgspec.json.decode(body, type=_Asked)
    if asked.learned is not None:
        forecast.learn(asked.learned)
    told = await step_log.ask(scope.get("app"), forget=asked.forget)
    return (_NO_LOG, b"{}") if told is None else (OK, json.dumps(told).encode())
