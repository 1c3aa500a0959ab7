"""The rounds of a measurement fit the engine and show it all kinds of steps."""

import pytest

from penstock.steps.rounds import REPEATS, EngineBounds, rounds


@pytest.mark.parametrize(
    "room",
    [
        EngineBounds(max_seqs=32, max_model_len=2048, kv_tokens=11_648),
        EngineBounds(max_seqs=4, max_model_len=256, kv_tokens=0),
        EngineBounds(max_seqs=1, max_model_len=64, kv_tokens=128),
        EngineBounds(max_seqs=256, max_model_len=131_072, kv_tokens=1 << 20),
    ],
)
def test_no_round_is_more_than_the_engine_holds(room: EngineBounds) -> None:
    """Sequences, lengths and KV cache are within its bounds, prompts beside included."""
    planned = list(rounds(room))
    assert planned
    for one in planned:
        width = one.sequences + bool(one.beside)
        longest = max(one.prompt + one.output, *one.beside, 0)
        assert width <= room.max_seqs
        assert longest <= room.max_model_len
        assert not room.kv_tokens or width * longest <= room.kv_tokens


def test_a_usual_engine_sees_prompts_batches_and_both() -> None:
    """Each kind comes, and prompts alone as often as a composition needs to count."""
    planned = list(rounds(EngineBounds(max_seqs=32, max_model_len=2048, kv_tokens=11_648)))
    alone = [one for one in planned if one.output == 1]
    batches = [one for one in planned if one.output > 1 and not one.beside]
    assert {alone.count(one) for one in alone} == {REPEATS}
    assert {one.sequences for one in batches} == {1, 2, 4, 8, 16, 32}
    assert len({one.prompt for one in batches}) >= 4
    assert len({one.sequences for one in planned if one.beside}) >= 3
