"""Counts of requests in the engine, the source of ``Load``.

Trade-off: running and waiting requests are estimated from the batch size. If the engine itself counts more waiting
ones, for lack of KV blocks, its count is used.
"""

from dataclasses import dataclass

from penstock.domain.serving.report import Load

MOST_UNSEEN_S = 3.0
"""Seconds for which the agent's last reading counts: three of its intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    waiting: int = 0
    kv_used_ratio: float = 0.0
    kv_blocks: int = 0
    """The engine's KV blocks; 0 until reported."""
    is_still: bool = False
    """Whether counters and processes have been inactive since the last reading."""


@dataclass(slots=True, eq=False)
class LoadBook:
    max_num_seqs: int
    in_flight: int = 0
    probes: int = 0
    """The platform's own questions under way: work like any other, and no load."""
    queued_tokens: int = 0
    observed: Observed = Observed()
    _read_at: float | None = None
    _still_s: float = 0.0
    _had_work: bool = False
    _is_still: bool = False

    def observe(self, observed: Observed, now: float) -> None:
        """Mark the engine as stalled if it made no progress between two readings with work."""
        has_work = self.in_flight + self.probes > 0
        since_s = self._since_s(now)
        self._read_at = now
        self._still_s = self._still_s + since_s if observed.is_still else 0.0
        self._is_still = observed.is_still and has_work and self._had_work
        self._had_work = has_work
        self.observed = observed

    def still_s(self, now: float) -> float | None:
        """Seconds without progress of an engine with work, else 0; None before a reading."""
        if self._read_at is None:
            return None
        return self._still_s + self._since_s(now) if self._is_still else 0.0

    def _since_s(self, now: float) -> float:
        """Return at most ``MOST_UNSEEN_S``: beyond that the agent or this process was suspended."""
        return 0.0 if self._read_at is None else min(now - self._read_at, MOST_UNSEEN_S)

    def enter(self, prompt_tokens: int, output_tokens: int) -> None:
        self.in_flight += 1
        self.queued_tokens += prompt_tokens + output_tokens

    def prefilled(self, prompt_tokens: int) -> None:
        self.queued_tokens -= prompt_tokens

    def leave(self, remaining_tokens: int) -> None:
        self.in_flight -= 1
        self.queued_tokens -= remaining_tokens

    @property
    def load(self) -> Load:
        waiting = max(self.in_flight - self.max_num_seqs, min(self.observed.waiting, self.in_flight), 0)
        return Load(
            running=self.in_flight - waiting,
            waiting=waiting,
            queued_tokens=self.queued_tokens,
            kv_used_ratio=self.observed.kv_used_ratio,
        )
