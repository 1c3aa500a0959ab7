"""A request's real use of its engine, counted independently of its API's answer, also after its caller has left.

The engine's side adds to the meter once for each prompt and once for each step of each sequence. Unless it has declared
that it fills meters (``fill``), a count of 0 means "not counted".
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.domain.serving.report import Batched, Used
from penstock.worker.share import Share

REPORT_EVERY = 16
"""Output tokens between reports to the queue: often enough for fairness, rare enough to be cheap."""
current: ContextVar["Meter | None"] = ContextVar("meter", default=None)
"""The meter of the request that this task belongs to."""


_filled: list[str] = []


def fill(engine: str) -> None:
    _filled[:] = [engine]


def are_filled() -> bool:
    return bool(_filled)


class Stops(NamedTuple):
    """Whether an interactive request is awaited, and the monotonic second until which this one stands still for such;
    0: never.
    """

    is_awaited: bool = False
    until: float = 0.0


RUNS: Final = Stops()


def _nobody(_: int) -> None: ...


def _nothing(_: float, __: float) -> None: ...


@dataclass(slots=True, eq=False)
class Meter:
    """The engine calls the methods under ``the engine's side``, which only count."""

    weight: float = 1.0
    prompts: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    created_tokens: int = 0
    sequences: int = 0
    running: int = 0
    output_tokens: int = 0
    steps: int = 0
    beside: int = 0
    engine_s: float = 0.0
    waited_s: float | None = None
    """How long it waited at the queue; None while it does, and for what never comes there."""
    batched: Batched | None = None
    """The batch of its last item, if the engine makes batches by our rules."""
    is_over: bool = False
    has_grammar: bool = False
    share: Share | None = None
    """How much of it is in the engine at once; None if that is all of it."""
    _searches: set[str] = field(default_factory=set)
    stops: Stops = RUNS
    _report: Callable[[int], None] = _nobody
    _step: Callable[[float, float], None] = _nothing
    _made_at: float = 0.0
    _report_at: int = 0
    _reported: int = 0

    @property
    def used(self) -> Used:
        return Used(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            sequences=self.sequences,
            prompts=self.prompts,
            is_final=self.is_over,
            steps=self.steps or None,
            beside=self.beside or None,
            engine_us=round(self.engine_s * 1e6) if self.steps or self.engine_s else None,
            waited_s=self.waited_s,
        )

    @property
    def lacks_grammar(self) -> bool:
        """The output must follow a grammar and has not begun: a failure is then the grammar's."""
        return self.has_grammar and not self.output_tokens

    def watch(self, report: Callable[[int], None], step: Callable[[float, float], None] = _nothing) -> None:
        """Call ``report`` every ``REPORT_EVERY`` output tokens and at the first step (the prompt is prefilled);
        ``step`` at each further step with its seconds and the second of its end.
        """
        self._report, self._report_at, self._step = report, 0, step

    def flush(self) -> None:
        fresh, self._reported = self.output_tokens - self._reported, self.output_tokens
        self._report_at = self.output_tokens + REPORT_EVERY
        self._report(fresh)

    def close(self) -> None:
        self.is_over, self._report, self._step = True, _nobody, _nothing
        if self.share is not None:
            self.share.close()

    # -- the engine's side ---------------------------------------------------------------

    def prompt(self, tokens: int, search: str = "") -> bool:
        """Return False for a later step of the beam search ``search``: its prompt is not a new one."""
        if search in self._searches:
            return False
        if search:
            self._searches.add(search)
        self.prompts += 1
        self.prompt_tokens += tokens
        return True

    def enter(self, *, has_grammar: bool = False) -> None:
        """Also records whether the output must follow a grammar."""
        self.has_grammar |= has_grammar
        self.sequences += 1
        self.running += 1

    def cached(self, tokens: int, created: int = 0) -> None:
        self.cached_tokens += tokens
        self.created_tokens += created

    def made(self, tokens: int) -> None:
        self.output_tokens += tokens
        if self.output_tokens >= self._report_at:
            self.flush()

    def shared(self, sequences: int, seconds: float, at: float = 0.0) -> None:
        """Record a step's sequences, this sequence's part of its time, and the monotonic second of its end."""
        if at > self._made_at:
            if self._made_at:
                self._step(at - self._made_at, at)
            self._made_at = at
        self.steps += 1
        self.beside += sequences
        self.engine_s += seconds

    def read(self, seconds: float) -> None:
        """Record a prompt's part of a step without output of that prompt."""
        self.engine_s += seconds

    def leave(self) -> None:
        self.running -= 1
