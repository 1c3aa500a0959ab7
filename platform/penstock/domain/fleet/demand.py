"""The demand for each version, as numbers: the gateways' reports, and all of them merged.

A report holds counters since its process began, so that a lost or repeated report changes nothing. Work is counted as
engines do: in prompt tokens and expected output. A silent gateway is ``missing``; its numbers never count as zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    version: VersionId
    standing: Standing
    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    """Expected output, as it was reserved."""
    answered: int = 0
    """Requests with a judgement of their time: a first token, a whole answer, or a deadline missed."""
    late: int = 0
    """Those of them beyond their tier's objective, or beyond their deadline."""
    read_tokens: int = 0
    """Prompt tokens of ended answers."""
    cached_tokens: int = 0
    """Those of them that the prefix cache held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNow:
    """Requests for a version without a serving worker, held or just refused for that reason; ``oldest_s``: seconds
    without a pause.
    """

    version: VersionId
    requests: int
    tokens: int
    oldest_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    """Counters since ``began`` (Unix seconds), and the held requests now; ``number`` counts its reports."""

    gateway: str
    began: float
    number: int
    counted: tuple[Counted, ...] = ()
    held: tuple[HeldNow, ...] = ()
    loop_lag_s: float = 0.0
    """The longest delay of its event loop since the report before."""
    cpu_s: float = 0.0
    """CPU seconds of its process since its first report."""
    is_runner: bool = False
    """A jobs runner's: it tells held requests alone."""
    has_ended: bool = False
    """True in the last report of a process that ends in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    requests: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0

    def plus(self, other: "Rate") -> "Rate":
        return Rate(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDemand:
    rates: Mapping[Standing, Rate] = field(default_factory=dict)
    answered: int = 0
    late: int = 0
    """Of those answered in the window of judgement, for standings that buy capacity."""
    read_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens of answers that ended in that window, and those of them that the prefix cache held."""
    held_requests: int = 0
    held_tokens: int = 0
    held_s: float = 0.0
    """Seconds of the uninterrupted wait for a worker."""

    @property
    def uncached_ratio(self) -> float:
        """1 as long as no answer has ended."""
        return 1.0 - self.cached_tokens / self.read_tokens if self.read_tokens else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """``age_s`` is that of the oldest report that still counts."""

    versions: Mapping[VersionId, VersionDemand] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Gateways that reported and are silent: their requests may have gone elsewhere, or not."""
    gateways: int = 0
    loop_lag_s: float = 0.0
    request_cpu_s: float = 0.0
    """Mean CPU seconds of a gateway for a request, over the window of judgement; 0 before one was counted."""
    age_s: float = 0.0

    @property
    def is_known(self) -> bool:
        return bool(self.gateways) and not self.missing

    def wanted(self, now: float) -> tuple[Wanted, ...]:
        """Versions with held requests, the longest wait first; ``now`` is Unix seconds."""
        held = (
            Wanted(version=version, requests=one.held_requests, tokens=one.held_tokens, since=now - one.held_s)
            for version, one in self.versions.items()
            if one.held_requests
        )
        return tuple(sorted(held, key=lambda one: (one.since, one.version)))
