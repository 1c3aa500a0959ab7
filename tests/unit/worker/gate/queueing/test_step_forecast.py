"""The step model at the queue: the pace of what is inside, and the reading of a prompt."""

from dataclasses import replace

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.models.steps import pairs_of
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize, Slots
from penstock.worker.gate.queueing.step_forecast import StepForecast
from penstock.worker.gate.queueing.work import Work
from tests.support.samples.curves import SMOLLM2

SIZE = EngineSize(max_seqs=8, kv_blocks=1000, block_size=32, prefill_tokens=512)


def work(name: str = "a", prompt: int = 300, output: int = 100) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId("t"),
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=prompt,
        expected_output_tokens=output,
    )


def filled(*inside: Work) -> Slots:
    slots = Slots(SIZE)
    for one in inside:
        slots.take(one)
        slots.prefilled(one.request)
    return slots


def test_the_pace_is_that_of_a_steady_batch() -> None:
    """Four of 300 and 100 tokens: a step makes four tokens and reads twelve, at a context of 350 each."""
    slots = filled(*(work(str(n)) for n in range(4)))
    step_s = SMOLLM2.seconds(decoding=4, prompt=12, context=4 * 350, pairs=4 * pairs_of(300) / 100)
    assert StepForecast(SMOLLM2, slots, 1.0).pace_per_s() == pytest.approx((12 + 2 * 4) / step_s)


def test_longer_contexts_are_slower_for_the_same_work() -> None:
    """A measured average of the past can't know that; the requests inside tell it."""
    short, long = filled(*(work(str(n), 50) for n in range(8))), filled(*(work(str(n), 1500) for n in range(8)))
    per_answer = [
        (prompt + 200) / StepForecast(SMOLLM2, slots, 1.0).pace_per_s() for prompt, slots in ((50, short), (1500, long))
    ]
    assert per_answer[1] > 2 * per_answer[0]


def test_an_empty_engine_keeps_its_last_pace() -> None:
    """First the one that it is given, then the one that it had."""
    slots = Slots(SIZE)
    forecast = StepForecast(SMOLLM2, slots, 123.0)
    assert forecast.pace_per_s() == 123.0
    slots.take(work())
    busy = forecast.pace_per_s()
    slots.leave(RequestId("a"))
    assert busy != 123.0
    assert forecast.pace_per_s() == busy


def test_a_prompt_alone_is_read_in_its_chunks() -> None:
    """1,000 tokens are two steps of 500."""
    found = StepForecast(SMOLLM2, Slots(SIZE), 1.0).reading_s(work(prompt=1000))
    assert found == pytest.approx(2 * SMOLLM2.seconds(decoding=0, prompt=500, pairs=pairs_of(1000) / 2))


def test_a_batch_makes_the_reading_longer() -> None:
    """Each step holds it, and half of one runs already."""
    slots = filled(*(work(str(n)) for n in range(4)))
    found = StepForecast(SMOLLM2, slots, 1.0).reading_s(work("b", prompt=100))
    step_s = SMOLLM2.seconds(decoding=4, prompt=100, context=1400, pairs=pairs_of(100))
    assert found == pytest.approx(step_s + SMOLLM2.seconds(decoding=4, context=1400) / 2)


def test_prompts_that_came_before_are_read_before() -> None:
    """400 tokens on their way and 300 own ones fill two steps."""
    slots = filled(work("x"))
    slots.take(work("first", prompt=400))
    alone, behind = (StepForecast(SMOLLM2, one, 1.0).reading_s(work("b")) for one in (filled(work("x")), slots))
    assert behind > alone + SMOLLM2.token_s * 400


def test_a_bound_on_long_prompts_takes_more_steps() -> None:
    """Beside others a prompt of 300 with a bound of 100 is three steps."""
    slots = filled(work("x"))
    slots.size = replace(SIZE, long_prefill_tokens=100)
    free, bound = (StepForecast(SMOLLM2, one, 1.0).reading_s(work("b")) for one in (filled(work("x")), slots))
    assert bound > free + 1.9 * SMOLLM2.fixed_s


def test_a_learned_model_replaces_the_first_guess() -> None:
    """No reading is predicted before; then the pace is the model's, until the engine shows another."""
    queue = AdmissionQueue(SIZE, pace=500.0)
    assert queue.forecast.reading_s(work()) is None
    queue.forecast.learn(SMOLLM2)
    assert queue.forecast.pace.per_s == 500.0
    for number in range(8):
        queue.arrive(work(str(number)), 0.0, lambda: None, lambda *_: None)
    predicted = queue.forecast.pace.per_s
    assert predicted == pytest.approx(StepForecast(SMOLLM2, queue.slots, 1.0).pace_per_s())
    assert queue.forecast.reading_s(work("b")) == pytest.approx(
        StepForecast(SMOLLM2, queue.slots, 1.0).reading_s(work("b"))
    )


def test_the_mix_is_empty_again_after_all_have_left() -> None:
    """Also after a recount of a prompt."""
    slots = filled(work("a"), work("b", 20, 5))
    slots.recount(work("a", 100), 0)
    assert (slots.mix.prompt_tokens, slots.mix.output_tokens) == (120, 105)
    slots.leave(RequestId("a"))
    slots.leave(RequestId("b"))
    slots.leave(RequestId("b"))
    assert slots.mix == (0, 0)
