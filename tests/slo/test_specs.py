"""The declared objectives: sound, measurable by the catalogue, and wrong ones refused with place and remedy."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.apps import slos
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator, parse, parse_all
from penstock.domain.serving.spec import SpecRefused
from penstock.settings.processes import GatewaySettings
from penstock.telemetry import names
from slo import spec

CHAT = yaml.safe_load((spec.SPECS / "chat.yaml").read_bytes())
HISTOGRAMS = {
    Indicator.TTFT: names.VISIBLE_TTFT_SECONDS,
    Indicator.ITL: names.ITL_SECONDS,
    Indicator.LATENCY: names.REQUEST_SECONDS,
}


def test_platform_and_tools_read_the_same_objectives() -> None:
    """What the running platform promises is what rules and dashboards are made from."""
    assert slos.load() == spec.load()
    assert set(slos.load()) == set(Tier)


@pytest.mark.parametrize("tier", Tier)
def test_a_promise_can_be_measured(tier: Tier) -> None:
    """Every bound is a bucket of the histogram that measures it: nothing counts between buckets."""
    for objective in spec.load()[tier].objectives:
        if objective.indicator.is_timed:
            assert objective.within_s in HISTOGRAMS[objective.indicator].buckets


def test_deadlines_leave_room_for_the_promises() -> None:
    """A request's default deadline is longer than the slowest answer that still counts as good."""
    for tier in spec.load().values():
        assert tier.deadline_s > max(objective.within_s for objective in tier.objectives)


def test_numbers_are_there_to_be_read() -> None:
    """Readers ask a tier for its objective; what is not promised is None, and its bound zero."""
    chat, embedding = spec.load()[Tier.CHAT], spec.load()[Tier.EMBEDDING]
    ttft = chat.objective(Indicator.TTFT)
    assert ttft is not None
    assert (ttft.good_ratio, ttft.within_s) == (0.95, 1.0)
    assert ttft.error_budget_ratio == pytest.approx(0.05)
    assert embedding.objective(Indicator.TTFT) is None
    assert (embedding.within_s(Indicator.LATENCY), embedding.within_s(Indicator.TTFT)) == (0.25, 0.0)


def test_a_queue_timeout_comes_before_the_first_heartbeat() -> None:
    """A stream that had shown a heartbeat was refused within its 200, and no SDK came back."""
    heartbeat_s = GatewaySettings.model_fields["stream_heartbeat_s"].default
    assert all(tier.queue_timeout_s < heartbeat_s for tier in slos.load().values())


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "unknown tier": (
        lambda s: s.update(tier="gold"),
        "x.yaml: tier: 'gold' is none of chat, standard, batch, embedding, classic",
    ),
    "missing key": (lambda s: s.pop("deadline_s"), "x.yaml: deadline_s: is missing; add it"),
    "unknown key": (lambda s: s.update(p95=1), "x.yaml: p95: no such key here; there are tier, says"),
    "no sentence": (lambda s: s.update(says=" "), "x.yaml: says: say it in a sentence"),
    "zero deadline": (lambda s: s.update(deadline_s=0), "x.yaml: deadline_s: 0 must be seconds above 0"),
    "timeout beyond the deadline": (
        lambda s: s.update(queue_timeout_s=5000),
        "x.yaml: queue_timeout_s: 5000 must be seconds above 0, below deadline_s",
    ),
    "text for a number": (lambda s: s.update(deadline_s="60"), "x.yaml: deadline_s: '60' must be"),
    "true for a number": (lambda s: s.update(window_days=True), "x.yaml: window_days: True must be 1 to 90"),
    "half a day": (lambda s: s.update(window_days=1.5), "x.yaml: window_days: 1.5 must be 1 to 90"),
    "not a number": (lambda s: s.update(deadline_s=float("nan")), "x.yaml: deadline_s: nan must be"),
    "per cent": (lambda s: s["objectives"]["ttft"].update(good_ratio=95), "x.yaml: objectives.ttft.good_ratio: 95"),
    "certainty": (
        lambda s: s["objectives"]["itl"].update(good_ratio=1),
        "objectives.itl.good_ratio: 1 must be a share",
    ),
    "no bound": (lambda s: s["objectives"]["ttft"].pop("within_s"), "objectives.ttft.within_s: is missing"),
    "bound of a count": (
        lambda s: s["objectives"]["availability"].update(within_s=1),
        "objectives.availability.within_s: no such key here; there are good_ratio, says",
    ),
    "unknown indicator": (lambda s: s["objectives"].update(speed={}), "objectives.speed: no such key here"),
    "missing promise": (lambda s: s["objectives"].pop("itl"), "objectives.itl: tier chat must promise this"),
    "list of objectives": (lambda s: s.update(objectives=[]), "x.yaml: objectives: must hold keys and values"),
}


@pytest.mark.parametrize(("change", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_specification_names_place_and_remedy(change: Change, says: str) -> None:
    """Each mistake is answered with file, key and what to do."""
    raw = copy.deepcopy(CHAT)
    change(raw)
    with pytest.raises(SpecRefused) as refused:
        parse(raw, "x.yaml")
    assert says in str(refused.value)


def test_each_tier_is_described_once() -> None:
    """A tier described twice or not at all is refused."""
    with pytest.raises(SpecRefused, match=r"b\.yaml: tier: chat is described twice"):
        parse_all({"a.yaml": CHAT, "b.yaml": CHAT})
    with pytest.raises(SpecRefused, match="no file describes tier standard"):
        parse_all({"a.yaml": CHAT})
    with pytest.raises(SpecRefused, match=r"a\.yaml: the file: must hold"):
        parse_all({"a.yaml": None})


@pytest.mark.parametrize(
    ("text", "says"),
    [("tier: [", "is no valid YAML"), ("tier: gold", r"SLO specification chat\.yaml: tier: 'gold'")],
    ids=["no YAML", "wrong"],
)
def test_the_platform_says_what_is_wrong_in_words(tmp_path: Path, text: str, says: str) -> None:
    """A broken file ends the start with a message for a person."""
    (tmp_path / "chat.yaml").write_text(text)
    with pytest.raises(CommandError, match=says):
        slos.read(tmp_path)
