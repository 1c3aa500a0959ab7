"""A real encoder confirms what a safety rule suspects in prompts, through the official SDK; its going away is said."""

import json
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

BAD_REQUEST, NO_TIME = 400, 0.0001
TENANT, ENCODER = "confirmed", "minilm-torch"
LIKE = ["I will kill you.", "I am going to hurt you.", "You are going to die."]
SUSPICIOUS = {"category": "abuse", "action": "block", "stages": ["input"]}
THREAT = "I am going to kill you tonight!"
HARMLESS = "How do I kill a Python process that hangs?"


def rule(name: str, word: str, seconds: float, away: str) -> dict[str, object]:
    """Return a rule that suspects a word and gives the encoder this time."""
    confirm = {"model": ENCODER, "like": LIKE, "threshold": 0.5, "seconds": seconds, "away": away}
    return {**SUSPICIOUS, "name": name, "phrases": [word], "confirm": confirm}


@pytest.fixture(scope="module")
def openai(classic_platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """Yield OpenAI's SDK as a tenant with a pack of three rules: two of them don't wait for the encoder."""
    rules = [
        rule("threat", "kill", min(patient(10), 30), "block"),
        rule("closed", "bluebird", NO_TIME, "block"),
        rule("open", "blackbird", NO_TIME, "release"),
    ]
    file: Path = tmp_path_factory.mktemp("packs") / "own.yaml"
    file.write_text(json.dumps({"id": "threats", "version": 1, "rules": rules}))
    classic_platform.run("safety", "push", str(file))
    key = key_of(classic_platform, TENANT)
    classic_platform.run("safety", "assign", "threats", "--tenant", TENANT)
    url = f"{classic_platform.url}/v1"
    with OpenAI(base_url=url, api_key=key, max_retries=0, timeout=patient(60)) as sdk:
        with classic_platform.http(key) as http:
            asked = {"model": ENCODER, "input": "a bluebird"}
            until("the pack holds", lambda: http.post("/v1/embeddings", json=asked).status_code == BAD_REQUEST)
        yield sdk
    classic_platform.run("safety", "assign", "none", "--tenant", TENANT)


def refused(sdk: OpenAI, text: str) -> bool:
    """Tell whether a prompt is filtered; the model that is asked is the encoder itself."""
    try:
        sdk.embeddings.create(model=ENCODER, input=text)
    except BadRequestError as error:
        return error.code == "content_filter"
    return False


def test_an_encoder_tells_a_threat_from_a_question(openai: OpenAI) -> None:
    """Both prompts have the suspected word; the threat is refused, the question is answered."""
    assert (refused(openai, THREAT), refused(openai, HARMLESS)) == (True, False)


def test_a_rule_without_its_model_decides_as_it_says(openai: OpenAI, classic_platform: Platform) -> None:
    """A model that is late leaves one rule closed and one open, both counted."""
    assert (refused(openai, "a bluebird"), refused(openai, "a blackbird")) == (True, False)
    fleet = Fleet(platform=classic_platform)
    assert all(fleet.counted(names.JUDGE_VERDICTS, outcome=outcome) >= 1 for outcome in ("block", "release"))


def test_the_platform_pays_for_its_questions(openai: OpenAI, classic_platform: Platform) -> None:
    """The tenant's rows are its own prompts; the questions stand under the platform's tenant."""
    assert refused(openai, THREAT)
    until("the questions are told", lambda: any(row["outcome"] == "ok" for row in classic_platform.usage("_judge")))
    assert all(row["tenant"] == TENANT for row in classic_platform.usage(TENANT))
