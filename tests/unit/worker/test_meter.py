"""One request's meter, filled as an engine's side fills it."""

import pytest

from penstock.domain.serving.report import Used
from penstock.worker.meter import Meter


def test_prompts_count_once_and_tokens_over_all_sequences() -> None:
    """Two prompts with two choices each: two prompts, four sequences, every sequence's tokens."""
    meter = Meter()
    for tokens in (5, 7):
        assert meter.prompt(tokens)
        for _ in range(2):
            meter.enter()
    meter.cached(4)
    for _ in range(3 * 4):
        meter.made(1)
    assert meter.used == Used(
        prompt_tokens=12, cached_tokens=4, output_tokens=12, sequences=4, prompts=2, is_final=False
    )
    for _ in range(4):
        meter.leave()
    meter.close()
    assert (meter.running, meter.used.is_final) == (0, True)


def test_the_steps_of_a_beam_search_have_one_prompt() -> None:
    """Each beam of each step is a request of its own to the engine: the prompt of the first one counts."""
    meter = Meter()
    assert [meter.prompt(tokens, "search-1") for tokens in (5, 6, 6)] == [True, False, False]
    assert meter.prompt(9, "search-2")
    assert (meter.prompts, meter.prompt_tokens) == (2, 14)


def test_progress_is_reported_in_lots_and_the_first_step_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step says that a prompt is through, whatever it brought; then each lot, and the rest at the end."""
    monkeypatch.setattr("penstock.worker.meter.REPORT_EVERY", 4)
    meter, lots = Meter(), list[int]()
    meter.watch(lots.append)
    meter.made(0)
    for _ in range(9):
        meter.made(1)
    meter.flush()
    assert lots == [0, 4, 4, 1]
    meter.close()
    meter.made(50)
    assert (lots, meter.output_tokens) == ([0, 4, 4, 1], 59)


def test_shared_steps_are_counted_for_each_sequence() -> None:
    """Two sequences in a step of five and one in a step of two: three steps, twelve sequences, the parts of time."""
    meter = Meter()
    assert (meter.used.steps, meter.used.beside, meter.used.engine_us) == (None, None, None)
    for sequences in (5, 5, 2):
        meter.shared(sequences, 0.01 / sequences)
    assert (meter.used.steps, meter.used.beside, meter.used.engine_us) == (3, 12, 9000)
