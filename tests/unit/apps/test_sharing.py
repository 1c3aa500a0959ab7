"""Limits without a shared store are for one gateway."""

import os
from pathlib import Path

import pytest

from penstock.apps.sharing import check_shared, doubts_on_answers, limits_of_this_home
from penstock.domain.command_error import CommandError
from penstock.settings import Settings


@pytest.mark.parametrize(("gateways", "limits_url"), [(1, ""), (1, "redis://r"), (4, "redis://r")])
def test_one_gateway_or_a_shared_store_may_start(tmp_path: Path, gateways: int, limits_url: str) -> None:
    """One gateway needs no store, and with a store there may be any number."""
    answers_url = "redis://answers" if gateways > 1 else ""
    check_shared(Settings(home=tmp_path, gateways=gateways, limits_url=limits_url, answers_url=answers_url))


def test_several_gateways_without_a_shared_store_are_refused(tmp_path: Path) -> None:
    """Finding 9: limits that would be multiplied are refused at the start, with what to do."""
    with pytest.raises(CommandError, match="4 times the agreed amount") as caught:
        check_shared(Settings(home=tmp_path, gateways=4))
    assert "PENSTOCK_LIMITS_URL" in caught.value.do


def test_several_gateways_share_their_answers(tmp_path: Path) -> None:
    """Without a shared store of answers a repeated request would run again at another gateway: refused."""
    with pytest.raises(CommandError, match="billed again") as caught:
        check_shared(Settings(home=tmp_path, gateways=2, limits_url="redis://r"))
    assert "PENSTOCK_ANSWERS_URL" in caught.value.do


@pytest.mark.parametrize(
    ("answers_url", "is_refused", "is_doubted"),
    [
        ("redis://r", True, True),
        ("redis://:secret@r:6379/0", True, True),
        ("redis://r/1", False, True),
        ("redis://r?db=1", False, True),
        ("unix:///run/redis", False, False),
        ("redis://other", False, False),
        ("redis://r:6380", False, False),
        ("", False, True),
    ],
)
def test_answers_have_a_store_of_their_own(
    tmp_path: Path, answers_url: str, is_refused: bool, is_doubted: bool
) -> None:
    """Finding 11: the limits' own database is refused, its server (one memory) or none at all is told."""
    settings = Settings(home=tmp_path, limits_url="redis://r", answers_url=answers_url)
    assert bool(doubts_on_answers(settings)) == is_doubted
    if is_refused:
        with pytest.raises(CommandError, match="fill the limits store"):
            check_shared(settings)
    else:
        check_shared(settings)


def test_a_second_gateway_of_a_home_is_refused(tmp_path: Path) -> None:
    """Finding 9: a gateway that is started by hand beside another, supervised or not, is refused without a store."""
    settings = Settings(home=tmp_path)
    for is_supervised in (True, False):
        with (
            limits_of_this_home(settings, is_supervised=is_supervised),
            pytest.raises(CommandError, match=rf"\(process {os.getpid()}\) counts .* grant them twice"),
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
