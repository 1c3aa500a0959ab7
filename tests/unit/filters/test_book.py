"""The packs in force: the strictest of floor, model and tenant, and none that is not there."""

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.filters.book import Book, CurrentPacks, names
from penstock.filters.pack import Action, Pack, Rule


def pack(name: str, action: Action) -> Pack:
    return Pack(id=name, version=1, rules=(Rule(name="r", action=action, category="c", regex="x"),))


BOOK = Book(
    packs=(pack("floor", Action.MASK), pack("mild", Action.OBSERVE), pack("hard", Action.BLOCK)), floor=("floor",)
)


@pytest.mark.parametrize(
    ("plan", "model", "action"),
    [
        ("", (), Action.MASK),
        ("mild", (), Action.MASK),
        ("hard,mild", (), Action.BLOCK),
        ("mild", ("hard",), Action.BLOCK),
    ],
)
def test_a_plan_never_goes_below_the_floor(plan: str, model: tuple[str, ...], action: Action) -> None:
    """Whatever a tenant or a model names, the strictest of all acts."""
    (rule,) = BOOK.policy(model, names(plan)).rules
    assert rule.rule.action is action


def test_nothing_is_served_without_a_pack_that_is_named() -> None:
    """A pack that has not come yet is a refusal to try again in a second."""
    with pytest.raises(StoreUnavailable, match="safety pack new") as refused:
        BOOK.policy((), ("new",))
    assert refused.value.retry_after_s == 1.0


def test_the_newest_book_counts() -> None:
    """Before the first one nothing is served; a policy that was asked of the last one is forgotten."""
    packs = CurrentPacks()
    with pytest.raises(StoreUnavailable, match="no safety packs"):
        packs.policy((), "")
    packs.replace(BOOK)
    assert packs.policy((), "hard") is packs.policy((), "hard")
    packs.replace(Book())
    with pytest.raises(StoreUnavailable):
        packs.policy((), "hard")
    assert packs.policy((), "").rules == ()
