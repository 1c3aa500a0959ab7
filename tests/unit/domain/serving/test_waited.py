"""How a request fared at a door, on its way to the gateway."""

import pytest

from penstock.domain.serving.waited import AT_ONCE, Ahead, Waited, heard, told

WAITED = Waited(
    predicted_s=0.5,
    waited_s=0.75,
    share=0.25,
    waiting=7,
    tenants=3,
    ahead=(Ahead(standing="interactive", own=1, others=4), Ahead(standing="batch", own=0, others=2)),
)


@pytest.mark.parametrize("waited", [WAITED, Waited(), Waited(share=None, waited_s=1.0)])
def test_what_is_told_is_heard(waited: Waited) -> None:
    """It comes through as it was, an unknown share as unknown."""
    assert heard(told(waited).decode()) == waited


def test_who_entered_at_once_is_told_alike() -> None:
    """The usual case has its words ready, and they are those that it would have anyway."""
    assert told(AT_ONCE) == told(Waited())


@pytest.mark.parametrize(
    "value", ["", "1,2", "a,b,c,d,e", "0,0,,0,0,paid:1", "0,0,,0,0,paid:x:1", "0,0,,0,0,a word:1:1"]
)
def test_nonsense_is_unknown(value: str) -> None:
    """What can't be read says nothing."""
    assert heard(value) is None
