"""Limits without a shared store are for one gateway."""

from pathlib import Path

import pytest

from penstock.apps.settings import Settings
from penstock.apps.sharing import check_shared, limits_of_this_home
from penstock.domain.command_error import CommandError


@pytest.mark.parametrize(("gateways", "limits_url"), [(1, ""), (1, "redis://r"), (4, "redis://r")])
def test_one_gateway_or_a_shared_store_may_start(tmp_path: Path, gateways: int, limits_url: str) -> None:
    """One gateway needs no store, and with a store there may be any number."""
    check_shared(Settings(home=tmp_path, gateways=gateways, limits_url=limits_url))


def test_several_gateways_without_a_shared_store_are_refused(tmp_path: Path) -> None:
    """Finding 9: limits that would be multiplied are refused at the start, with what to do."""
    with pytest.raises(CommandError, match="4 times what was agreed") as caught:
        check_shared(Settings(home=tmp_path, gateways=4))
    assert "PENSTOCK_LIMITS_URL" in caught.value.do


def test_a_second_gateway_of_a_home_is_refused(tmp_path: Path) -> None:
    """Finding 9: a gateway that is started by hand beside another, supervised or not, is refused without a store."""
    settings = Settings(home=tmp_path)
    for is_supervised in (True, False):
        with (
            limits_of_this_home(settings, is_supervised=is_supervised),
            pytest.raises(CommandError, match="given twice"),
            limits_of_this_home(settings, is_supervised=False),
        ):
            pass
    shared = Settings(home=tmp_path, limits_url="redis://r")
    with limits_of_this_home(shared, is_supervised=False), limits_of_this_home(shared, is_supervised=False):
        pass


def test_a_supervised_successor_may_start_beside_its_predecessor(tmp_path: Path) -> None:
    """A rolling restart has two processes of one gateway for a moment, of which one takes requests."""
    settings = Settings(home=tmp_path)
    with limits_of_this_home(settings, is_supervised=True), limits_of_this_home(settings, is_supervised=True):
        pass
