"""`penstock slo status`: budgets from a Prometheus or from the processes' pages; the unknown is never a number."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest
from typer.testing import CliRunner

from penstock.apps import observed, slos
from penstock.cli import application
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.page import parse
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.settings import Settings
from penstock.slo import budgets, recorded
from penstock.slo.budget import Budget, EventCounts
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

app = application()

RATIO = recorded.error_ratio
PROMISED = slos.promised()
TTFT = {"tier": "chat", "objective": "ttft"}


def prometheus(answers: Mapping[str, list[tuple[dict[str, str], float]]]) -> Prometheus:
    """Return one that answers queries which begin so."""

    def answer(request: httpx.Request) -> httpx.Response:
        query = parse_qs(request.content.decode())["query"][0]
        found = next((found for begin, found in answers.items() if query.startswith(begin)), [])
        result = [{"metric": labels, "value": [0, str(value)]} for labels, value in found]
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})

    return Prometheus("http://p", transport=httpx.MockTransport(answer))


def the(budgets: tuple[Budget, ...], objective: str) -> Budget:
    return next(one for one in budgets if one.objective == objective)


def test_a_prometheus_tells_what_is_left_and_how_fast_it_goes() -> None:
    """Shares of bad events over a period and its windows become what is left, burns and a forecast."""
    ratios = {RATIO("28d"): 0.025, RATIO("1h"): 0.2, RATIO("6h"): 0.1}
    told = [({"__name__": name, **TTFT}, value) for name, value in ratios.items()]
    found = budgets.of_prometheus(prometheus({"{__name__": told, recorded.BAD_EVENTS: [(TTFT, 0.1)]}), PROMISED)
    ttft = the(found.budgets, "ttft")
    assert ttft.left_ratio == pytest.approx(0.5)
    assert ttft.burns == {"1h": pytest.approx(4), "6h": pytest.approx(2), "3d": None}
    assert ttft.spent_in_s == pytest.approx(7 * 86_400)
    assert found.unserved == ("batch", "classic", "embedding", "standard")


def seen(window: str, bad: float, events: float) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what was counted of the first tokens over a window, as queries and their answers."""
    told = {recorded.BAD_EVENTS: bad, recorded.EVENTS: events}
    return {recorded.count(rate, window): [(TTFT, count)] for rate, count in told.items()}


@pytest.mark.parametrize(
    ("bad", "events", "is_few"), [(1, 12, True), (4, 99, True), (5, 12, False), (1, 101, False), (0, 3, True)]
)
def test_few_events_are_told_and_not_judged(bad: float, events: float, is_few: bool) -> None:
    """As with alerts: less than five bad ones, of so many that five would have been allowed, are no verdict."""
    ratios = [({"__name__": RATIO("28d"), **TTFT}, bad / events)]
    answers = {"{__name__": ratios, **seen("28d", bad, events), recorded.BAD_EVENTS: [(TTFT, 0.0)]}
    ttft = the(budgets.of_prometheus(prometheus(answers), PROMISED).budgets, "ttft")
    assert (ttft.is_few, ttft.left_ratio is None, ttft.seen) == (is_few, is_few, EventCounts(bad=bad, events=events))


def test_few_events_of_a_window_are_no_forecast() -> None:
    """A night with one slow request of two does not say that a budget is spent by noon."""
    ratios = {RATIO("28d"): 0.025, RATIO("6h"): 0.5}
    told = [({"__name__": name, **TTFT}, value) for name, value in ratios.items()]
    counts = seen("28d", 500, 20_000) | seen("6h", 1, 2)
    answers = {"{__name__": told, **counts, recorded.BAD_EVENTS: [(TTFT, 0.1)]}
    ttft = the(budgets.of_prometheus(prometheus(answers), PROMISED).budgets, "ttft")
    assert ttft.left_ratio == pytest.approx(0.5)
    assert (ttft.burns["6h"], ttft.spent_in_s) == (None, None)


def test_lost_series_are_unknown_and_idle_ones_are_not() -> None:
    """What was counted yesterday and is not today is unknown; what is counted and had no events has spent nothing."""
    itl = TTFT | {"objective": "itl"}
    answers = {
        recorded.BAD_EVENTS: [(itl, 0.0)],
        "present_over_time": [(TTFT, 1.0), (itl, 1.0)],
        "{__name__": [({"__name__": RATIO("28d"), **TTFT}, 0.0)],
    }
    found = budgets.of_prometheus(prometheus(answers), PROMISED)
    assert the(found.budgets, "ttft").left_ratio is None
    assert the(found.budgets, "itl").left_ratio == 1.0


def test_a_prometheus_without_the_rules_is_told_of() -> None:
    """A Prometheus that knows no promise is no platform without trouble."""
    with pytest.raises(CommandError, match="has no recorded promises") as told:
        budgets.of_prometheus(prometheus({}), PROMISED)
    assert "penstock slo rules" in told.value.do


def page() -> str:
    metrics = Metrics()
    for outcome in Outcome:
        metrics.counter(names.TIER_REQUESTS).labels(tier="chat", outcome=outcome.value)
        metrics.counter(names.TIER_STREAMS).labels(tier="chat", outcome=outcome.value)
    metrics.counter(names.TIER_REQUESTS).labels(tier="chat", outcome="ok").inc(9_995)
    metrics.counter(names.TIER_REQUESTS).labels(tier="chat", outcome="internal").inc(5)
    metrics.counter(names.TIER_REQUESTS).labels(tier="chat", outcome="forbidden").inc(9000)
    for seconds in [0.2] * 390 + [3.0] * 10:
        metrics.histogram(names.VISIBLE_TTFT_SECONDS).labels(model="m", tier="chat").observe(seconds)
    return metrics.exposition().decode()


def test_pages_tell_what_happened_since_the_processes_started() -> None:
    """Two gateways' counters are added up; a burn and a forecast need a history that nobody has."""
    pages = {f"http://{one}": parse(page(), one) for one in ("g1", "g2")}
    found = budgets.of_pages(pages, ("http://g3",), PROMISED)
    assert the(found.budgets, "availability").left_ratio == pytest.approx(0.5)
    assert the(found.budgets, "ttft").left_ratio == pytest.approx(0.5)
    assert the(found.budgets, "stream_completion").left_ratio == 1.0
    assert the(found.budgets, "itl").left_ratio is None
    assert set(the(found.budgets, "ttft").burns.values()) == {None}
    assert the(found.budgets, "ttft").spent_in_s is None
    assert set(found.unserved) == {tier.value for tier in Tier} - {"chat"}
    assert found.notes == ("does not answer: http://g3",)


@pytest.mark.parametrize("form", ["table", "json"])
def test_the_command_shows_budgets_and_what_they_mean(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A spent budget freezes rollouts, and the screen says which; what is unknown is a dash, or null."""
    ratios = [({"__name__": RATIO("28d"), **TTFT}, 0.06)]
    found = budgets.of_prometheus(prometheus({"{__name__": ratios, recorded.BAD_EVENTS: [(TTFT, 0.1)]}), PROMISED)
    monkeypatch.setattr(observed, "budgets", lambda *_: replace(found, heeded=True))
    result = CliRunner().invoke(app, ["slo", "status", *(["--json"] if form == "json" else [])])
    assert result.exit_code == 0
    if form == "table":
        assert "rollouts: frozen: chat.ttft (overspent by 20%)" in result.output
        assert "check only availability" not in result.output
        return
    told = json.loads(result.output)
    because = [{"tier": "chat", "objective": "ttft"}]
    assert told["rollouts"] == {"pace": "frozen", "heeds": "all", "because": because}
    assert the_plain(told, "itl")["left_ratio"] is None
    assert the_plain(told, "ttft")["spent_in_s"] == 0


def test_no_screen_says_frozen_where_the_controller_does_not_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Prometheus of the controller's own a spent budget of times stops nothing, and the screen says so."""
    ratios = [({"__name__": RATIO("28d"), **TTFT}, 0.06)]
    found = budgets.of_prometheus(prometheus({"{__name__": ratios, recorded.BAD_EVENTS: [(TTFT, 0.1)]}), PROMISED)
    monkeypatch.setattr(observed, "budgets", lambda *_: found)
    result = CliRunner().invoke(app, ["slo", "status"])
    assert "frozen" not in result.output
    assert "rollouts check only availability" in result.output


def test_rollouts_heed_the_prometheus_that_the_controller_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of its home or its settings, and no other that somebody asks."""
    told = budgets.ErrorBudgets(source="", over="", budgets=())
    monkeypatch.setattr(budgets, "of_prometheus", lambda *_: told)
    settings = Settings(home=tmp_path)
    settings.paths.run.mkdir()
    settings.paths.prometheus_address.write_text("http://own:1\n")
    assert observed.budgets(settings).heeded
    assert not observed.budgets(settings, "http://other:1").heeded
    assert observed.budgets(Settings(home=tmp_path, budgets_url="http://other:1"), "http://other:1").heeded


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (0.256, "25.6%"),
        (-0.2, "overspent by 20%"),
        (-1.5, "overspent 1.5 times"),
        (-42.0, "overspent 42 times"),
        (None, "few: 3 bad of 40"),
    ],
)
def test_the_screen_says_what_is_left_in_words(monkeypatch: pytest.MonkeyPatch, left: float | None, says: str) -> None:
    """Nobody reads a share of -4200 %, nor that something is spent in spent."""
    count = EventCounts(bad=3, events=40)
    budget = Budget(
        tier="chat",
        objective="ttft",
        good_ratio=0.95,
        period_days=28,
        left_ratio=left,
        burns={},
        seen=count,
        is_few=left is None,
    )
    found = budgets.ErrorBudgets(source="a test", over="a while", budgets=(budget,))
    monkeypatch.setattr(observed, "budgets", lambda *_: found)
    output = CliRunner().invoke(app, ["slo", "status"]).output
    assert says in output
    assert "spent in spent" not in output
    assert "-42" not in output


def the_plain(told: dict[str, list[dict[str, object]]], objective: str) -> dict[str, object]:
    return next(one for one in told["budgets"] if one["objective"] == objective)
