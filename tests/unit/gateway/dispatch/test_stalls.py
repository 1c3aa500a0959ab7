"""Engines that stand still under running streams."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import WorkerId
from penstock.gateway.dispatch.stalls import MOST_S, Stalls, StreamProgress

W0, W1 = WorkerId("w0"), WorkerId("w1")
STEP_S = 0.5


def after_ten_good_seconds(*, tokens_per_step: int = 5, every: int = 1) -> tuple[Stalls, float, int]:
    """Return stalls that saw a stream on W0 deliver, with the second and tokens at which it stands."""
    stalls, delivered, now = Stalls(), 1, 0.0
    for step in range(20):
        now = step * STEP_S
        if step % every == 0:
            delivered += tokens_per_step
        assert not stalls.look([StreamProgress(W0, 1, delivered)], now)
    return stalls, now, delivered


def test_silence_beyond_the_usual_is_suspicious() -> None:
    """A stream that delivered twice a second and stops makes its worker suspicious soon, not at once."""
    stalls, now, delivered = after_ten_good_seconds()
    still = [StreamProgress(W0, 1, delivered)]
    assert not stalls.look(still, now + 1.5)
    assert stalls.look(still, now + 3.5) == {W0}


def test_a_slow_engine_is_given_its_time() -> None:
    """Where tokens come every two seconds, three of silence are nothing."""
    stalls, now, delivered = after_ten_good_seconds(every=4)
    assert not stalls.look([StreamProgress(W0, 1, delivered)], now + 3.0)


def test_a_token_of_any_stream_ends_it() -> None:
    """One stream's reader may be slow; as long as another stream moves, the engine works."""
    stalls, now, delivered = after_ten_good_seconds()
    still = StreamProgress(W0, 1, delivered)
    assert stalls.look([still], now + 3.5) == {W0}
    assert not stalls.look([still, StreamProgress(W0, 2, 1)], now + 4.0)


def test_it_ends_by_itself() -> None:
    """After ``most_s`` somebody nearer to the engine has judged."""
    stalls, now, delivered = after_ten_good_seconds()
    assert not stalls.look([StreamProgress(W0, 1, delivered)], now + MOST_S)


def test_before_the_first_token_nothing_is_known() -> None:
    """Requests that wait for their first token say nothing of the engine."""
    stalls = Stalls()
    assert not any(stalls.look([StreamProgress(W0, 1, 0)], second) for second in range(60))


def test_workers_without_streams_are_forgotten() -> None:
    """Silence is counted from the time at which streams ran again."""
    stalls, now, delivered = after_ten_good_seconds()
    stalls.look([], now + 1.0)
    assert not stalls.look([StreamProgress(W0, 2, delivered)], now + 5.0)


@given(st.lists(st.tuples(st.sampled_from([W0, W1]), st.integers(0, 3), st.floats(0.0, 4.0)), max_size=60))
def test_only_workers_with_streams_are_suspected(events: list[tuple[WorkerId, int, float]]) -> None:
    """Whatever moves or not, nobody is suspected who has delivered in this very look, or has no stream."""
    stalls, delivered, now = Stalls(), {W0: 1, W1: 1}, 0.0
    for worker, tokens, passed in events:
        now += passed
        delivered[worker] += tokens
        found = stalls.look([StreamProgress(worker, 1, delivered[worker])], now)
        assert found <= {worker}
        assert not (tokens and found)
