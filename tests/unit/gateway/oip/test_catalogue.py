"""What callers of the Open Inference Protocol may name."""

from dataclasses import replace

import pytest

from penstock.domain.errors import UnknownModel, UnsupportedByModel
from penstock.domain.ids import Alias
from penstock.domain.serving.auto import Auto, Rule
from penstock.gateway.oip.catalogue import find
from tests.support.gateways.oip import TABLE, WRITER
from tests.support.samples.calls import principal


def test_names_that_stand_for_rules_are_not_offered() -> None:
    """Tensors have no rules; whoever may not use the name hears what it hears of any name."""
    auto = Auto(alias=Alias("auto"), rules=(Rule(name="all", to=Alias(WRITER.id)),))
    table = replace(TABLE, autos=(auto,))
    with pytest.raises(UnsupportedByModel, match="auto aliases are not served"):
        find(table, principal(), "auto")
    with pytest.raises(UnknownModel):
        find(table, principal(models=(Alias("x"),)), "auto")
