"""Three models on two slots, in real vLLM: a used one is awake, and no stream is touched."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import DEMO_CACHE, HomeMaker
from tests.support.engines.likeness import difference
from tests.support.patience import patient, until
from tests.support.platforms.pool import HOLD_S, SECOND, Answered, PoolSite, pool_site

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

TOKENS = 160
MODELS = ("smollm2", SECOND, "minilm")


@pytest.fixture(scope="module")
def site(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[PoolSite]:
    """Yield the platform, after a first proof of each version."""
    source = next(DEMO_CACHE.glob("smollm2-*"))
    with pool_site(new_home("pool"), source, shared_settings) as running:
        yield running


def sleeper(site: PoolSite) -> str:
    """Return the sleeping one, once none is on the way."""
    until("one of them sleeps", lambda: sorted(site.states.values()) == ["ready", "ready", "sleeping"], within_s=60)
    return next(name for name, state in site.states.items() if state == "sleeping")


@contextmanager
def beside(site: PoolSite, model: str) -> Iterator[list[Answered]]:
    """Ask beside the test; the answer is there when the block has ended."""
    found: list[Answered] = []
    asking = threading.Thread(target=lambda: found.append(site.ask(model)))
    asking.start()
    yield found
    asking.join(patient(120))
    assert found, "the request is still held"


def test_they_swap_by_use_and_each_answers_as_itself(site: PoolSite) -> None:
    """An asked model wakes for it, and gives its usual answer; never are more awake than fit."""
    for model in MODELS:
        sleeper(site)
        answer = site.ask(model)
        assert answer.status == 200, answer.body
        assert answer.body["penstock"]["version"] == site.versions[model]
        assert model == "minilm" or "Tokyo" in answer.text
        assert sum(state == "ready" for state in site.states.values()) <= 2
    woken = site.ask(sleeper(site))
    assert (woken.status, woken.wake_s > 0) == (200, True)


def test_a_stream_runs_to_its_end_while_others_want_its_place(site: PoolSite) -> None:
    """Two others are asked in turn and share a slot; the stream is that of a quiet platform, up to rounding."""
    with site.stream("smollm2", TOKENS) as alone:
        quiet = list(alone)
    assert len(quiet) == TOKENS
    with site.stream("smollm2", TOKENS) as beside_others:
        said = [next(beside_others)]
        assert site.ask(sleeper(site)).status == 200
        assert site.state("smollm2") == "ready"
        for model in (SECOND, "minilm"):
            assert site.ask(model).status == 200
        said.extend(beside_others)
    assert difference(said, quiet) == ""


def test_twins_agree_and_no_comparison_wakes_anybody(site: PoolSite, tmp_path: Path) -> None:
    """One model under two versions, compared by an auto alias: both say the same, and only while both are awake."""
    rules = tmp_path / "rules.json"
    rest = {"name": "rest", "to": SECOND, "compare": "twin", "compare_per_s": 10}
    rules.write_text(json.dumps({"rules": [rest, {"name": "twin", "to": "smollm2"}]}))
    site.platform.run("aliases", "auto", "auto", "--file", str(rules))
    until("the gateway knows it", lambda: site.ask("auto", timeout_s=HOLD_S).is_ok)
    brought(site, "minilm", SECOND)
    before = _compared(site)
    assert site.ask("auto").is_ok
    brought(site, "smollm2", SECOND)
    assert _compared(site)["pairs"] == before["pairs"]
    for count in range(1, 6):
        assert site.ask("auto").is_ok
        until("it is compared", lambda: _compared(site)["pairs"] >= before["pairs"] + count, within_s=60)  # noqa: B023
    found = _compared(site)
    assert (found["texts_agreed"], found["failed"], found["untold"]) == (found["pairs"], 0, 0)
    assert min(found["alike_ratio"], found["price_ratio"]) > 0.95


def brought(site: PoolSite, *models: str) -> None:
    """Ask these until they are awake, and so the third one sleeps."""

    def are_awake() -> bool:
        asleep = sleeper(site)
        return asleep not in models or not site.ask(asleep).is_ok

    until(f"{models} are awake", are_awake, within_s=120)


def _compared(site: PoolSite) -> dict[str, Any]:
    """Return what the report says of the only pair."""
    none = {"pairs": 0}
    return next(iter(site.admin("/autos/auto/report")["pairs"]), none)


def test_who_leaves_while_it_is_held_is_forgotten(site: PoolSite) -> None:
    """Nothing is held for it, nothing is billed; the model may wake for the next one."""
    model = sleeper(site)
    with pytest.raises(Exception, match="timed out"):
        site.ask(model, timeout_s=0.3)
    assert site.ask(model).status == 200


def test_a_worker_that_is_killed_while_it_wakes_is_replaced(site: PoolSite) -> None:
    """The request that waited for it is answered by its successor, within its deadline."""
    model = sleeper(site)
    with beside(site, model) as found:
        until("it wakes", lambda: site.state(model) == "waking", within_s=60, every_s=0.01)
        site.kill(model)
    assert found[0].status == 200, found[0].body
