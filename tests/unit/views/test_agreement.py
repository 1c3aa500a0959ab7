"""The report of an auto alias."""

from typing import Any

import pytest

from penstock.cli import screen
from penstock.views import agreement

PAIR = {
    "alias": "auto", "rule": "rest", "version": "big@1", "other": "a", "other_version": "small@2", "answered": 9_000,
    "pairs": 1_200, "failed": 0, "untold": 400, "forms": 800, "forms_agreed": 600, "texts": 0, "texts_agreed": 0,
    "alike": 0, "tenants": 3, "most": 0.5, "forms_ratio": 0.75, "forms_between": [0.72, 0.78], "texts_ratio": None,
    "texts_between": None, "alike_ratio": None, "price_ratio": 0.25,
}  # fmt: skip
TEXTS = PAIR | {"texts": 24, "texts_ratio": 1 / 24, "texts_between": [0.01, 0.2], "alike_ratio": 0.736, "tenants": 1}
NONE = PAIR | {"pairs": 0, "tenants": 0, "most": None, "forms_ratio": None, "price_ratio": None, "other_version": ""}


@pytest.mark.parametrize(
    ("compare", "pairs", "says"),
    [
        ("", [], ["No rule of auto is compared with another", "Write `compare: rest` into the rule rest"]),
        ("a", [], ["has answered anything yet"]),
        ("a", [PAIR], ["75% of 800 equal (72% to 78%)", "texts -", "1,200 of 3 tenants, 50% of one", "0.25 of it"]),
        ("", [TEXTS], ["4% of 24 agree (1% to 20%); tokens alike 74%", "1,200, all of one tenant"]),
        ("a", [NONE], ["JSON, labels -", "price -", "not there for its callers", "compared 0"]),
    ],
)
def test_a_report_says_how_often_and_what_it_means(
    compare: str, pairs: list[Any], says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is unknown is a dash, never 0; without a figure it says how to get one."""
    rule = {"name": "rest", "to": "big", "compare": compare}
    screen.show(agreement.shown({"auto": {"alias": "auto", "rules": [rule]}, "hours": 24.0, "pairs": pairs}))
    shown = " ".join(capsys.readouterr().out.split())
    assert [one for one in says if one not in shown] == []
    assert ("does not say which one is right" in shown) == bool(pairs)
