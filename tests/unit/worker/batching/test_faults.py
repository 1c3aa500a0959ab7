"""Poison and lack of memory, as values."""

import pytest

from penstock.worker.batching.faults import MOST_SUSPECTS, QUARANTINE_S, RECOVERS_S, SUSPECT_S, MemoryCap, Quarantine

DIGEST = b"d" * 16


def after_failures(*successes_between: int) -> Quarantine:
    """Return what is known of a digest that has failed alone, with so many successes of others after each time."""
    quarantine = Quarantine()
    for successes in successes_between:
        quarantine.failed_alone(DIGEST, 0.0)
        for _ in range(successes):
            quarantine.succeeded()
    return quarantine


def test_who_fails_alone_again_is_quarantined_for_a_while() -> None:
    """The second failure counts, as others succeeded in between; a minute later it may try again."""
    quarantine = after_failures(1)
    assert quarantine.left_s(DIGEST, 0.0) == 0.0
    quarantine.failed_alone(DIGEST, 10.0)
    assert quarantine.left_s(DIGEST, 10.0) == QUARANTINE_S
    assert quarantine.left_s(DIGEST, 10.0 + QUARANTINE_S) == 0.0
    assert quarantine.left_s(b"other", 10.0) == 0.0


def test_a_device_that_fails_everybody_puts_nobody_in_quarantine() -> None:
    """Without a success in between, an item that fails a hundred times is not to blame."""
    assert after_failures(*[0] * 100).left_s(DIGEST, 0.0) == 0.0


def test_a_failure_of_long_ago_says_nothing() -> None:
    """After ten minutes a second failure is a first one."""
    quarantine = after_failures(1)
    quarantine.failed_alone(DIGEST, SUSPECT_S + 1.0)
    assert quarantine.left_s(DIGEST, SUSPECT_S + 1.0) == 0.0


def test_an_item_without_a_digest_is_never_quarantined() -> None:
    """What can't be told apart would be mistaken for one another."""
    quarantine = Quarantine()
    for _ in range(5):
        quarantine.failed_alone(b"", 0.0)
        quarantine.succeeded()
    assert (quarantine.left_s(b"", 0.0), len(quarantine)) == (0.0, 0)


def test_suspects_are_bounded() -> None:
    """A caller that sends other poison each time fills no memory."""
    quarantine = Quarantine()
    for number in range(3 * MOST_SUSPECTS):
        quarantine.failed_alone(number.to_bytes(4, "big"), 0.0)
    assert len(quarantine) == MOST_SUSPECTS


def test_lack_of_memory_halves_the_cap_which_recovers_slowly() -> None:
    """After a failure at 32 it is 16, and 32 again a minute later; it never falls below one."""
    cap = MemoryCap(32)
    assert cap.most(5.0) == 32
    cap.halve(32, 10.0)
    assert [cap.most(10.0 + after) for after in (0.0, RECOVERS_S / 2, RECOVERS_S)] == [16, pytest.approx(22, abs=1), 32]
    for _ in range(9):
        cap.halve(cap.most(100.0), 100.0)
    assert cap.most(100.0) == 1
    assert cap.most(1e9) == 32
