"""Hours of batch work as a plan writes them."""

import pytest

from penstock.domain.tenancy.batch_hours import MOST_CHARS, SAYS, Span, parsed


def test_hours_of_several_days_are_read() -> None:
    """Days, times and zone come back as numbers, and a week's end wraps to its begin."""
    hours = parsed("sat-mon 20:00-06:00, wed 00:00-24:00 Europe/Berlin")
    assert hours is not None
    assert hours.zone.key == "Europe/Berlin"
    assert hours.spans == (
        Span(days=frozenset({5, 6, 0}), begin_min=1200, end_min=360),
        Span(days=frozenset({2}), begin_min=0, end_min=1440),
    )


def test_hours_without_days_are_of_every_day_and_none_are_all_hours() -> None:
    """A single time is each day's; an empty text bounds nothing."""
    hours = parsed("22:00-06:00 UTC")
    assert hours is not None
    assert hours.spans[0].days == frozenset(range(7))
    assert parsed("") is None


@pytest.mark.parametrize(
    "text",
    [
        *("at night", "22:00-06:00", "22-06 UTC", "24:00-06:00 UTC", "22:00-24:01 UTC", "22:60-23:00 UTC", " "),
        *("22:00-06:00 Europe", "22:00-06:00 ../UTC", "22:00-06:00 /etc/localtime", "22:00-06:00 Nowhere/Town"),
        *("mon-tue-wed 22:00-06:00 UTC", "22:00-06:00, UTC", "22:00-06:00 \x00", f"{'22:00-06:00,' * MOST_CHARS} UTC"),
    ],
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    """Each of them is the one error, which shows how hours are written."""
    with pytest.raises(ValueError, match="Europe/Berlin") as refused:
        parsed(text)
    assert str(refused.value) == SAYS
