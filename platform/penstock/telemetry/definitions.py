"""Defines a metric: kind, labels (a closed set), buckets. The catalogue is ``names.py``."""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Label(StrEnum):
    API = "api"
    CODE = "code"
    DEVICE = "device"
    ERROR_TYPE = "error_type"
    GEN_AI_OPERATION_NAME = "gen_ai_operation_name"
    GEN_AI_PROVIDER_NAME = "gen_ai_provider_name"
    GEN_AI_REQUEST_MODEL = "gen_ai_request_model"
    GEN_AI_RESPONSE_MODEL = "gen_ai_response_model"
    GEN_AI_TOKEN_TYPE = "gen_ai_token_type"
    LEVEL = "level"
    MODEL = "model"
    OBJECT = "object"
    OUTCOME = "outcome"
    PHASE = "phase"
    PROCESS = "process"
    REASON = "reason"
    ROLE = "role"
    RULE = "rule"
    SCOPE = "scope"
    SERVICE_TIER = "service_tier"
    STAGE = "stage"
    STANDING = "standing"
    STATE = "state"
    TASK = "task"
    TENANT = "tenant"
    TIER = "tier"
    TRIGGER = "trigger"
    VERSION = "version"
    WINDOW = "window"
    WORKER = "worker"
    ZONE = "zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The client adds ``_total`` to counters' names."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()


def counter(name: str, text: str, labels: tuple[Label, ...] = ()) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, help=text, labels=labels)


def gauge(name: str, text: str, labels: tuple[Label, ...] = ()) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, help=text, labels=labels)


def histogram(name: str, text: str, labels: tuple[Label, ...] = (), *, buckets: tuple[float, ...]) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=text, labels=labels, buckets=buckets)


LATENCY_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ITL_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
PHASE_S = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TENANT_TTFT_S, TENANT_ITL_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0), (0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Few buckets, since each tenant has them; the tiers' objectives are among them."""
WAIT_S = (0.01, 0.1, 1.0, 10.0)
"""Few buckets, since each tenant has them."""
