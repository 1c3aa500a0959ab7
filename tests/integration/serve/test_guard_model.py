"""A real engine as guard model of its own answers: what it confirms is ended, what it clears is shown, late it decides
as its rule says. A model this small judges badly; its threshold makes it say yes or no.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import BadRequestError, OpenAI

from penstock.telemetry import names
from tests.support.patience import patient, until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.platforms.tenants import key_of

pytestmark = pytest.mark.integration

TENANT, MODEL, BAD_REQUEST = "guarded", "smollm2", 400
PROMPT = "Is this text an insult? Answer yes or no.\nText: {text}\nAnswer: "
ALWAYS, NEVER, NO_TIME = 0.0001, 1.0, 0.0001
ENDED, SHOWN = "content_filter", "stop"
SAID = "Thank you for the question. Shut up, {}! You are welcome."


def rule(word: str, threshold: float, seconds: float = 0.0, away: str = "block") -> dict[str, object]:
    """Return a rule of answers that suspects a word and asks the model."""
    times = {"seconds": seconds or min(patient(10), 30), "away": away}
    confirm = {"model": MODEL, "prompt": PROMPT, "unsafe": "yes", "safe": "no", "threshold": threshold, **times}
    named = {"name": f"{word[:3]}-rule", "category": "abuse", "action": "block", "stages": ["output"]}
    return {**named, "phrases": [word], "confirm": confirm}


def by_vectors(word: str) -> dict[str, object]:
    """Return a rule of prompts that asks the encoder on vLLM."""
    like = ["I will kill you.", "I am going to hurt you.", "You are going to die."]
    confirm = {"model": "minilm", "like": like, "threshold": 0.5, "seconds": min(patient(10), 30), "away": "block"}
    named = {"name": f"{word}-rule", "category": "abuse", "action": "block", "stages": ["input"]}
    return {**named, "phrases": [word], "confirm": confirm}


@pytest.fixture(scope="module")
def openai(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """Yield OpenAI's SDK as a tenant whose pack asks the model that answers."""
    rules = [
        rule("moron", ALWAYS),
        rule("fellow", NEVER),
        rule("closed", ALWAYS, NO_TIME),
        rule("open", ALWAYS, NO_TIME, "release"),
        by_vectors("kill"),
    ]
    file: Path = tmp_path_factory.mktemp("packs") / "guard.yaml"
    file.write_text(json.dumps({"id": "guard", "version": 1, "rules": rules}))
    platform.run("safety", "push", str(file))
    key = key_of(platform, TENANT)
    platform.run("safety", "assign", "guard", "--tenant", TENANT)
    asked = {"model": MODEL, "prompt": "Go.", "max_tokens": 2, "return_token_ids": True}
    with platform.http(key) as http:  # token ids are a 400 under a pack that acts
        until("the pack holds", lambda: http.post("/v1/completions", json=asked).status_code == BAD_REQUEST)
    with OpenAI(base_url=f"{platform.url}/v1", api_key=key, max_retries=0, timeout=patient(60)) as sdk:
        yield sdk
    platform.run("safety", "assign", "none", "--tenant", TENANT)


def answer(sdk: OpenAI, said: str, *, n: int = 1) -> set[tuple[str, str | None]]:
    """Return the choices of an answer that a grammar makes the model give."""
    pattern = re.sub(r"([.!])", r"[\1]", said)
    told = sdk.completions.create(
        model=MODEL, prompt="Go.", max_tokens=60, n=n, extra_body={"structured_outputs": {"regex": pattern}}
    )
    return {(one.text, one.finish_reason) for one in told.choices}


def streamed(sdk: OpenAI, said: str) -> tuple[str, str | None]:
    pattern = re.sub(r"([.!])", r"[\1]", said)
    asked = {"structured_outputs": {"regex": pattern}}
    events = sdk.completions.create(model=MODEL, prompt="Go.", max_tokens=60, stream=True, extra_body=asked)
    choices = [choice for event in events for choice in event.choices]
    return "".join(one.text for one in choices), choices[-1].finish_reason


@pytest.mark.parametrize(("word", "finish"), [("moron", ENDED), ("fellow", SHOWN), ("closed", ENDED), ("open", SHOWN)])
def test_the_model_decides(openai: OpenAI, word: str, finish: str) -> None:
    """As a stream, whole, and in each of two choices: the answer ends before the word, or is all there."""
    said = SAID.format(word)
    shown = said if finish == SHOWN else said.partition(word)[0]
    assert answer(openai, said, n=2) == {(shown, finish)}
    text, told = streamed(openai, said)
    assert told == finish
    assert text == shown if finish == SHOWN else shown.startswith(text)


def test_an_encoder_on_vllm_tells_a_threat_from_a_question(openai: OpenAI) -> None:
    """Its questions come in as interactive requests, which the engine's scheduler is told of."""
    asked = openai.completions.create(model=MODEL, prompt="How do I kill a Python process that hangs?", max_tokens=2)
    assert asked.choices
    with pytest.raises(BadRequestError, match="not allowed"):
        openai.completions.create(model=MODEL, prompt="I am going to kill you tonight!", max_tokens=2)


def test_a_suspicion_in_the_last_word_is_judged(openai: OpenAI) -> None:
    """The stream's end waits for the verdict, and the ledger says that it was filtered."""
    text, finish = streamed(openai, "You are a moron")
    assert (text.rstrip(), finish) == ("You are a", ENDED)
    assert streamed(openai, "You are a fellow") == ("You are a fellow", SHOWN)


def test_the_platform_pays_and_counts(openai: OpenAI, platform: Platform) -> None:
    """One token for each question, under the platform's own tenant; the tenant's rows are its own answers."""
    assert streamed(openai, "What a moron")[1] == ENDED
    until("the question is told", lambda: any(row["output_tokens"] == "1" for row in platform.usage("_judge")))
    outcomes = {row["outcome"] for row in platform.usage(TENANT)}
    assert outcomes <= {"filtered", "ok", "refused", "bad_request"}, outcomes
    assert "filtered" in outcomes
    fleet = Fleet(platform=platform)
    for verdict in ("confirmed", "cleared", "block", "release"):
        assert fleet.counted(names.JUDGE_VERDICTS, outcome=verdict) >= 1, verdict


def test_kept_matches_are_shown_to_operators_alone(openai: OpenAI, platform: Platform) -> None:
    """What ended an answer is shown once its tenant keeps it, each look is an act, and no event or log has it."""
    platform.run("tenants", "plan", TENANT, "keep_matches_s=3600")

    def shown() -> str:
        assert streamed(openai, "You moron. ")[1] == ENDED
        return platform.run("safety", "events", "--tenant", TENANT, "--text").stdout

    until("the match is kept and shown", lambda: "'moron'" in shown(), within_s=patient(30), every_s=1.0)
    assert "moron" not in platform.run("safety", "events", "--tenant", TENANT, "--json").stdout
    assert "safety.matches" in platform.run("audit", "--action", "safety").stdout
    assert not [
        log for log in (Path(platform.home) / "logs").glob("*.log") if "moron" in log.read_text(errors="replace")
    ]
