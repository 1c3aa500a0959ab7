"""What the gate has let in and what of it is done: plain counts, from which ``Load`` is read.

It must not know HTTP or the engine. Trade-off: who runs and who waits inside the engine is estimated from the size of
its batch, and corrected by the engine's own count where that is worse (it lacks KV blocks); asking the engine per
request would be exact and cost more than the request's whole way through the gate.
"""

from dataclasses import dataclass

from penstock.domain.worker import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the engine said about itself lately."""

    waiting: int = 0
    kv_used_ratio: float = 0.0
    kv_blocks: int = 0
    """How many KV blocks it has; 0 until it has said so."""
    progress: tuple[float, ...] = ()
    """Counters that move whenever it works."""


class LoadBook:
    """Counts of one engine. The owner says what enters, what got its first token, what leaves."""

    __slots__ = ("_max_num_seqs", "_moved_at", "in_flight", "observed", "queued_tokens")

    def __init__(self, max_num_seqs: int) -> None:
        """Take the size of the engine's batch."""
        self._max_num_seqs = max_num_seqs
        self.in_flight = 0
        self.queued_tokens = 0
        self.observed = Observed()
        self._moved_at: float | None = None

    def observe(self, observed: Observed, now: float) -> None:
        """Take in what the engine says of itself at monotonic second ``now``."""
        if observed.progress and observed.progress != self.observed.progress:
            self._moved_at = now
        self.observed = observed

    def still_s(self, now: float) -> float | None:
        """Return for how long the engine has done nothing, None where nobody has ever said."""
        return None if self._moved_at is None else now - self._moved_at

    def enter(self, prompt_tokens: int, output_tokens: int) -> None:
        """Count a request in."""
        self.in_flight += 1
        self.queued_tokens += prompt_tokens + output_tokens

    def prefilled(self, prompt_tokens: int) -> None:
        """Take the prompt of a request off: its first token is there."""
        self.queued_tokens -= prompt_tokens

    def leave(self, remaining_tokens: int) -> None:
        """Count a request out, with what of it was still queued."""
        self.in_flight -= 1
        self.queued_tokens -= remaining_tokens

    @property
    def load(self) -> Load:
        """The present load."""
        waiting = max(self.in_flight - self._max_num_seqs, min(self.observed.waiting, self.in_flight), 0)
        return Load(
            running=self.in_flight - waiting,
            waiting=waiting,
            queued_tokens=self.queued_tokens,
            kv_used_ratio=self.observed.kv_used_ratio,
        )
