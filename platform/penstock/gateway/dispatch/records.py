"""Nouns of worker health: a failed request's origin, evidence, probes, records of workers, changes of circuits.

A request's shape has nothing that its caller wrote, so it may be logged. Trade-off: two bodies of one shape may differ
as good and poison do; but a shape that many tenants' good requests have puts the fault in the body, not the worker.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from penstock.domain.ids import NO_VERSION, TenantId, VersionId, WorkerId
from penstock.domain.serving.request import InferenceRequest
from penstock.gateway.dispatch.blame import BlameSettings
from penstock.gateway.dispatch.charges import ChargeSettings
from penstock.gateway.dispatch.circuit import Circuit, CircuitSettings
from penstock.gateway.dispatch.outliers import OutlierSettings, Votes

Shape = NewType("Shape", str)

_FEATURES = frozenset(
    """
    add_generation_prompt allowed_token_ids bad_words best_of chat_template_kwargs continue_final_message dimensions
    documents echo encoding_format frequency_penalty ignore_eos logit_bias logprobs min_tokens mm_processor_kwargs n
    presence_penalty prompt_logprobs reasoning reasoning_effort repetition_penalty response_format seed stop
    stop_token_ids structured_outputs suffix text thinking tool_choice tools top_logprobs truncate_prompt_tokens
    use_beam_search
    """.split()
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose request failed, and of what shape it was."""

    tenant: TenantId
    shape: Shape
    adapter: VersionId = NO_VERSION
    """The adapter that it asked for: what goes wrong with one says nothing of its base, nor of another."""


def shape_of(request: InferenceRequest, prompt_tokens: int, adapter: VersionId = NO_VERSION) -> Shape:
    """Return API, streaming, size (a power of four), the features that the body asks for, and the adapter."""
    size = (max(0, prompt_tokens).bit_length() + 1) // 2
    features = sorted(_FEATURES.intersection(request.body))
    asked = (request.api, "stream" if request.stream else "whole", f"4^{size}", *features)
    return Shape(" ".join((*asked, adapter) if adapter else asked))


class FailureEvidence(StrEnum):
    """What a failed attempt says of the worker."""

    NONE = "none"
    """Nothing: the caller's fault, or the gate's word about its queue."""
    ANSWERED = "answered"
    """The engine answered, with an error of its own or with what it should not: it lives."""
    BROKEN = "broken"
    """The connection broke before the answer was complete."""
    SILENT = "silent"
    """Nothing came for long."""
    CLOSED = "closed"
    """No connection could be had, or the gate shuts down: a proof by itself, which no caller can make."""


class Why(StrEnum):
    """Why the platform asks a worker: a metric label."""

    ANSWERED = "answered"
    BROKEN = "broken"
    SILENT = "silent"
    ZONE = "zone"
    """Most of its zone is down."""
    HALF_OPEN = "half_open"


class ProbeResult(StrEnum):
    """What a probe found: a metric label."""

    PASSED = "passed"
    BUSY = "busy"
    """It was not answered in time, and the engine works: it is full."""
    FAILED = "failed"
    CLOSED = "closed"
    """No connection could be had, or the gate drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question to ask of a worker; ``origin``: whose failed request made it suspicious, where one did."""

    worker: WorkerId
    why: Why
    origin: Origin | None = None

    @property
    def is_urgent(self) -> bool:
        """True where the worker may be gone."""
        return self.why is not Why.ANSWERED


class Level(StrEnum):
    """What a circuit stands for: a metric label."""

    WORKER = "worker"
    ZONE = "zone"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """How often a suspected worker is asked, and how many at once."""

    every_s: float = 1.0
    urgent_every_s: float = 0.25
    most_at_once: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When circuits open."""

    gray_probes: int = 3
    """Probes in a row after which an outlier is trusted again; one is luck."""
    gray_open_s: float = 5.0
    """An outlier whose probes pass stays open for so long at least: only callers would show whether it is well."""
    zone_open_ratio: float = 0.5
    """A zone is lost when more than this share of its workers is down, and at least ``zone_least`` are."""
    zone_least: int = 2
    circuit: CircuitSettings = field(default_factory=CircuitSettings)
    outliers: OutlierSettings = field(default_factory=OutlierSettings)
    charges: ChargeSettings = field(default_factory=ChargeSettings)
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    blame: BlameSettings = field(default_factory=BlameSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A circuit opened or closed; ``reason``: on what evidence, in a word."""

    level: Level
    name: str
    is_open: bool
    reason: str = ""
    version: VersionId | str = ""


Tell = Callable[[Change], None]


@dataclass(slots=True)
class WorkerRecord:
    """One worker's. ``is_proven``: it is open on the platform's own evidence, ``is_hard``: it can't be reached."""

    circuit: Circuit
    votes: Votes
    is_proven: bool = False
    is_hard: bool = False
    left: int = 1
    """Probes that must pass before it closes."""
    alive_at: float = float("-inf")
    """When it last answered a caller with a token."""

    def is_clean(self, now: float) -> bool:
        """Tell whether nothing is held against it any more."""
        self.votes.fade(now)
        return self.circuit.is_calm(now) and not self.votes.complaining
