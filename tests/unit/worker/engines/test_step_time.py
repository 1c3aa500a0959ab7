"""Whose an engine's time is: the parts of all requests are together never more than the time in which it had work."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.engines import counting
from penstock.worker.engines.step_time import StepTime
from penstock.worker.meter import Meter, current
from tests.support.clock import ManualClock

LOT = 4
STEPS = st.lists(
    st.tuples(
        st.floats(min_value=0.0, max_value=2.0),
        st.floats(min_value=0.001, max_value=2.0),
        st.integers(min_value=1, max_value=11),
        st.integers(min_value=0, max_value=9),
    ),
    min_size=1,
    max_size=20,
)
"""For each step: seconds of rest before it, seconds that it takes, sequences that it brings something, and others."""


@given(STEPS)
def test_the_parts_of_all_are_the_time_in_which_there_was_work(steps: list[tuple[float, float, int, int]]) -> None:
    """Handed over at once, a step's parts are its time; in lots they are no more; rest is nobody's."""
    parts, now, busy_s, counted_s, has_lots = StepTime(LOT), 0.0, 0.0, 0.0, False
    for rest_s, took_s, sequences, waiting in steps:
        now += rest_s
        if rest_s:
            parts.begins(now)
        now += took_s
        busy_s += took_s
        has_lots |= sequences >= LOT
        for lot in range(0, sequences, LOT):
            outputs = [str(number) for number in range(lot, min(lot + LOT, sequences))]
            counted_s += len(outputs) * parts.each(now, outputs, sequences + waiting)
    assert counted_s <= busy_s * (1 + 1e-9)
    assert has_lots or counted_s == pytest.approx(busy_s)


@dataclass
class State:
    """What vLLM keeps of a request in its engine."""

    prompt_len: int = 3
    parent_req: None = None
    request_index: int = 0
    external_req_id: str = "r"
    num_cached_tokens: int = 0
    num_cache_creation_tokens: int = 0
    meter: Meter | None = None
    tells_cached: bool = False


@dataclass
class Output:
    """What a step made of a request."""

    request_id: str
    new_token_ids: tuple[int, ...] = (7,)


@dataclass
class Processor:
    """Stands for vLLM's ``OutputProcessor``."""

    request_states: dict[str, State] = field(default_factory=dict)

    def add_request(self, request: Output) -> None:
        self.request_states[request.request_id] = State()

    def process_outputs(self, outputs: list[Output], ended_at: float) -> None:
        """Do nothing with them."""

    def abort_requests(self, request_ids: list[str]) -> list[str]:
        return [name for name in request_ids if self.request_states.pop(name, None)]


def test_requests_of_one_batch_share_their_steps(clock: ManualClock) -> None:
    """Ten that ran beside one another for a second took a tenth each, and one that ran alone before, its own."""
    steps, engine, meters = StepTime(128), Processor(), [Meter() for _ in range(10)]
    add = counting.adding(Processor.add_request, steps, clock)
    process, begin = counting.processing(Processor.process_outputs, steps), clock.monotonic()
    for number, meter in enumerate(meters):
        current.set(meter)
        add(engine, Output(str(number)))
        if not number:
            process(engine, [Output("0")], begin + 0.5)
    for step in range(10):
        process(engine, [Output(str(number)) for number in range(10)], begin + 0.6 + 0.1 * step)
    assert meters[0].engine_s == pytest.approx(0.6)
    assert [meter.engine_s for meter in meters[1:]] == pytest.approx([0.1] * 9)
    assert sum(meter.engine_s for meter in meters) == pytest.approx(1.5)


@dataclass
class Engine:
    """An engine whose steps take a tenth of a second, and what is counted of it."""

    clock: ManualClock
    processor: Processor = field(default_factory=Processor)
    meters: dict[str, Meter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = StepTime(LOT)
        self._add = counting.adding(Processor.add_request, steps, self.clock)
        self._process = counting.processing(Processor.process_outputs, steps)
        self._abort = counting.aborting(Processor.abort_requests, steps, self.clock)

    def comes(self, name: str) -> None:
        """Let a request in."""
        current.set(self.meters.setdefault(name, Meter()))
        self._add(self.processor, Output(name))

    def step(self, *names: str) -> None:
        """Make a step that brings these something; vLLM says nothing of one that brings nobody anything."""
        self.clock.advance(0.1)
        if names:
            self._process(self.processor, [Output(name) for name in names], self.clock.monotonic())

    def leaves(self, name: str) -> None:
        """Abort a request."""
        self._abort(self.processor, [name])

    @property
    def seconds(self) -> dict[str, float]:
        """What each has taken."""
        return {name: round(meter.engine_s, 6) for name, meter in self.meters.items()}


@pytest.fixture
def engine(clock: ManualClock) -> Engine:
    """Return an engine at rest."""
    return Engine(clock)


def test_who_leaves_in_prefill_took_the_steps_that_read_its_prompt(engine: Engine) -> None:
    """A long prompt that was aborted before its first token had no second of the engine at all."""
    engine.comes("long")
    for _ in range(5):
        engine.step()
    engine.leaves("long")
    assert engine.seconds == {"long": 0.5}
    assert engine.meters["long"].used.engine_us == 500_000
    assert engine.meters["long"].used.steps is None, "none of them made a token"


def test_a_prompt_that_is_read_shares_the_steps_of_those_beside(engine: Engine) -> None:
    """Those that write no longer pay for the neighbour's prompt alone, and what leaves is charged once."""
    engine.comes("writer")
    engine.step("writer")
    engine.comes("long")
    engine.step("writer")
    engine.step("writer")
    assert engine.seconds == {"writer": 0.2, "long": 0.1}
    engine.step()  # nobody hears of it before the next
    engine.leaves("long")
    assert engine.seconds == {"writer": 0.2, "long": 0.15}
    engine.step("writer")
    assert engine.seconds == {"writer": 0.35, "long": 0.15}, "together the half second that there was"
    engine.leaves("writer")
    assert engine.seconds["writer"] == 0.35, "what it made is counted by its steps"


def test_a_prompt_that_comes_to_its_first_token_is_read_no_more(engine: Engine) -> None:
    """From then on its steps count, those that it has to stand still in do not."""
    engine.comes("a")
    engine.comes("b")
    engine.step("a", "b")
    engine.step("a")
    assert engine.seconds == {"a": 0.15, "b": 0.05}
