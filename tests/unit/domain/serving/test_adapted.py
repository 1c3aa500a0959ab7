"""What a gate tells of how a request met its adapter."""

import pytest

from penstock.domain.serving.adapted import MOST_CHARS, Adapted, Met, heard, told


@pytest.mark.parametrize("met", Met)
def test_what_is_told_is_heard(met: Met) -> None:
    """How it was met and the wait for it come through; who says more is heard as far as that goes."""
    adapted = Adapted(met=met, waited_s=0.012345)
    assert heard(told(adapted).decode()) == adapted
    assert heard(told(adapted).decode() + ",news") == adapted
    assert len(told(adapted)) <= MOST_CHARS


@pytest.mark.parametrize("value", ["", "hit", "magic,1.0", "hit,x", "hit,-1", "hit,nan", "hit,inf"])
def test_nonsense_is_not_heard(value: str) -> None:
    """An engine that says something else is as one that says nothing."""
    assert heard(value) is None
