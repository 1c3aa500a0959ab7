"""The operator's word on what holds while the limits store is away."""

import pytest

from penstock.apps.gateway_money import when_away
from penstock.apps.trouble import Trouble
from penstock.domain.limits import Measure
from penstock.gateway.admission.outage import POLICY, WhenAway


def test_what_is_not_said_stays() -> None:
    """Each named limit gets its policy, all others keep theirs."""
    assert when_away("") == POLICY
    said = when_away("spend=share, tokens=open")
    assert (said[Measure.SPEND], said[Measure.TOKENS], said[Measure.REQUESTS]) == (
        WhenAway.SHARE,
        WhenAway.OPEN,
        WhenAway.SHARE,
    )


@pytest.mark.parametrize("text", ["spend", "spend=", "money=open", "spend=maybe", "spend=open;tokens=open"])
def test_a_word_that_means_nothing_stops_the_start(text: str) -> None:
    """A typing error must not be found out during an outage."""
    with pytest.raises(Trouble, match="PENSTOCK_LIMITS_WHEN_AWAY"):
        when_away(text)
