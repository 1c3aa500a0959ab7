"""Dispatch: sends a request to a worker; to another only before the first token and within the retry budget.

Workers' health is judged by evidence that callers can't produce: the platform's own probes (ADR 0043).
"""

from penstock.gateway.dispatch.attempt import Loads
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.charges import Origin, Shape
from penstock.gateway.dispatch.circuit import CircuitSettings
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.poison import Poison, PoisonSettings
from penstock.gateway.dispatch.prober import Prober, ProberSettings
from penstock.gateway.dispatch.records import BreakerSettings, Change, FailureEvidence, Level, Probe, ProbeResult, Why
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.dispatch.stalls import Stalls, StallSettings, StreamProgress

__all__ = [
    "BreakerSettings",
    "Breakers",
    "Change",
    "CircuitSettings",
    "DispatchSettings",
    "FailureEvidence",
    "Level",
    "Loads",
    "Origin",
    "Poison",
    "PoisonSettings",
    "Probe",
    "ProbeResult",
    "Prober",
    "ProberSettings",
    "RetryBudget",
    "Shape",
    "StallSettings",
    "Stalls",
    "StreamProgress",
    "Why",
    "WorkerDispatcher",
]
