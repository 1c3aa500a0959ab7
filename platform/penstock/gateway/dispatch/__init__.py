"""Dispatch: the request goes to a worker; to another one only while no token was delivered and retries are cheap."""

from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.circuit import CircuitSettings
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.ports import Exchange, Loads, Workers
from penstock.gateway.dispatch.records import BreakerSettings, Change, Level
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.dispatch.stalls import Progress, Stalls, StallSettings

__all__ = [
    "BreakerSettings",
    "Breakers",
    "Change",
    "CircuitSettings",
    "DispatchSettings",
    "Exchange",
    "Level",
    "Loads",
    "Progress",
    "RetryBudget",
    "StallSettings",
    "Stalls",
    "WorkerDispatcher",
    "Workers",
]
