"""A continuous-batching engine in virtual time: what a step costs, and who gets what in it.

The model has three numbers, fitted to measured speeds: a fixed cost per step, a cost per running sequence and a cost
per prompt token of the chunk that shares the step (chunked prefill, as in vLLM and Sarathi-Serve). Requests beyond
the batch wait in a queue of its own, first come first served, as in vLLM.
Trade-off: attention's growth with context length is left out; fairness and queueing don't hang on it.
"""

from collections import deque
from dataclasses import dataclass, field

from penstock.domain.ids import RequestId
from penstock.worker.gate.admission.cost import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Seconds: per step, per decoding sequence, per prompt token."""

    base_s: float
    per_sequence_s: float
    per_prompt_token_s: float
    chunk_tokens: int = 512

    def of(self, sequences: int, prompt_tokens: int) -> float:
        """Return how long a step takes."""
        return self.base_s + self.per_sequence_s * sequences + self.per_prompt_token_s * prompt_tokens


SMOLLM2_CPU = StepCost(base_s=0.016, per_sequence_s=0.0007, per_prompt_token_s=0.00034)
"""Fitted to SmolLM2-135M, bfloat16, two cores: 65 and 854 tokens/s at concurrency 1 and 32, 512-token TTFT 188 ms."""


SMOLLM2_ONE_CORE = StepCost(base_s=0.038, per_sequence_s=0.001, per_prompt_token_s=0.00055)
"""The same engine with one thread, as ``penstock up`` starts it on two cores: 25 and 297 tokens/s at concurrency 1
and 16, 355-token TTFT 245 ms."""


@dataclass(slots=True)
class Sequence:
    """A request inside the engine."""

    work: Work
    output_tokens: int
    prompt_left: int
    made: int = 0


@dataclass(slots=True)
class EngineModel:
    """What runs; ``step`` advances everything by one step and says what came out."""

    cost: StepCost
    max_seqs: int = 10**9
    waiting: deque[Sequence] = field(default_factory=deque)
    prefilling: deque[Sequence] = field(default_factory=deque)
    decoding: list[Sequence] = field(default_factory=list)

    def enter(self, work: Work, output_tokens: int) -> None:
        """Take a request in; it will really produce ``output_tokens``."""
        self.waiting.append(Sequence(work, output_tokens, work.prompt_tokens))

    def abort(self, request: RequestId) -> None:
        """Forget a request whose caller has left; nothing happens where it is not here."""
        self.waiting = deque(s for s in self.waiting if s.work.request != request)
        self.prefilling = deque(s for s in self.prefilling if s.work.request != request)
        self.decoding = [s for s in self.decoding if s.work.request != request]

    @property
    def busy(self) -> bool:
        """True where a step would do anything."""
        return bool(self.waiting or self.prefilling or self.decoding)

    def step(self) -> tuple[float, list[Sequence], list[Sequence]]:
        """Run one step: its seconds, the sequences that got a token, and those of them that are done."""
        while self.waiting and len(self.prefilling) + len(self.decoding) < self.max_seqs:
            self.prefilling.append(self.waiting.popleft())
        room = self.cost.chunk_tokens - len(self.decoding)
        used, ready = self._prefill(room)
        seconds = self.cost.of(len(self.decoding), used)
        self.decoding.extend(ready)
        for sequence in self.decoding:
            sequence.made += 1
        produced = list(self.decoding)
        done = [s for s in produced if s.made >= s.output_tokens]
        self.decoding = [s for s in produced if s.made < s.output_tokens]
        return seconds, produced, done

    def _prefill(self, room: int) -> tuple[int, list[Sequence]]:
        used, ready = 0, []
        while self.prefilling and used < room:
            head = self.prefilling[0]
            chunk = min(head.prompt_left, room - used)
            head.prompt_left -= chunk
            used += chunk
            if head.prompt_left == 0:
                ready.append(self.prefilling.popleft())
        return used, ready
