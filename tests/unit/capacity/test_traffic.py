"""The peak of the ledger: the busiest minute, and mean lengths of what was answered."""

import pytest

from penstock.capacity.traffic import Asked, busiest
from penstock.domain.errors import ArtifactRefused


def test_the_busiest_minute_is_the_peak() -> None:
    """Sixty requests in one minute beside one in each of nine others."""
    burst = [Asked(600.0 + second, 100, 10) for second in range(60)]
    calm = [Asked(60.0 * minute, 300, 30) for minute in range(9)]
    found = busiest([*burst, *calm], "a@1")
    assert found.requests_per_s == pytest.approx(1.0)
    assert found.prompt_tokens == round((60 * 100 + 9 * 300) / 69)
    assert found.output_tokens == round((60 * 10 + 9 * 30) / 69)
    assert found.requests == 69


def test_requests_without_an_answer_count_nothing() -> None:
    """Failed ones never loaded an engine as an answer does."""
    assert busiest([Asked(0.0, 100, 0), Asked(0.0, 50, 5)], "a@1").requests == 1


def test_an_empty_ledger_is_no_traffic() -> None:
    """The remedy is to type the peak in."""
    with pytest.raises(ArtifactRefused, match="give --peak"):
        busiest([], "a@1")
