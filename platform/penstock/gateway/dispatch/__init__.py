"""Dispatch: the request goes to a worker; to another one only while no token was delivered and retries are cheap."""

from penstock.gateway.dispatch.breaker import Breakers, BreakerSettings
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.ports import Exchange, Loads, Workers
from penstock.gateway.dispatch.retries import RetryBudget

__all__ = [
    "BreakerSettings",
    "Breakers",
    "DispatchSettings",
    "Exchange",
    "Loads",
    "RetryBudget",
    "WorkerDispatcher",
    "Workers",
]
