"""The part of a tier's promise that a worker keeps."""

import pytest

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import NO_PROMISE


def test_a_chat_promises_its_first_and_its_further_tokens() -> None:
    """One in twenty may be late."""
    promise = slos.load()[Tier.CHAT].timed
    assert (promise.first_s, promise.each_s) == (1.0, 0.1)
    assert promise.late_ratio == pytest.approx(0.05)


def test_an_answer_in_one_piece_is_promised_as_a_whole() -> None:
    """Its latency is its first token's."""
    promise = slos.load()[Tier.CLASSIC].timed
    assert (promise.first_s, promise.each_s) == (0.25, 0.0)
    assert promise.late_ratio == pytest.approx(0.01)


def test_batch_promises_no_seconds() -> None:
    """So nothing yields to it."""
    assert slos.load()[Tier.BATCH].timed == NO_PROMISE
