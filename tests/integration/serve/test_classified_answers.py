"""The shipped classifier on a real engine, whose grammar makes it insult: the stream ends before the sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from penstock.filters import shipped
from tests.support.patience import patient, until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

TENANT, BAD_REQUEST = "classified", 400
PATTERN = "Thank you for the question[.] Shut up, moron! You are a stupid idiot[.]"


@pytest.fixture(scope="module")
def openai(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """Yield OpenAI's SDK as a tenant for which the shipped pack enforces in answers."""
    file: Path = tmp_path_factory.mktemp("packs") / "own.yaml"
    text = (
        shipped.text("abuse").decode().replace("id: abuse", "id: own-abuse").replace("mode: observe", "mode: enforce")
    )
    file.write_text(text.replace("threshold:", "stages: [output], threshold:"))
    platform.run("safety", "push", str(file))
    platform.run("tenants", "create", TENANT)
    platform.run("safety", "assign", "own-abuse", "--tenant", TENANT)
    found = re.search(r"psk_\w+", platform.run("keys", "create", TENANT).stdout)
    assert found is not None
    asked = {"model": "smollm2", "prompt": "Go.", "max_tokens": 2, "return_token_ids": True}
    with platform.http(found[0]) as http:  # token ids are a 400 under a pack that acts
        until("the pack holds", lambda: http.post("/v1/completions", json=asked).status_code == BAD_REQUEST)
    with OpenAI(base_url=f"{platform.url}/v1", api_key=found[0], max_retries=0, timeout=patient(60)) as sdk:
        yield sdk


def test_a_stream_ends_before_the_insult(openai: OpenAI) -> None:
    """What came before it is shown, and the end is a proper one."""
    events = list(
        openai.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Go."}],
            max_tokens=60,
            temperature=0,
            stream=True,
            extra_body={"structured_outputs": {"regex": PATTERN}},
        )
    )
    choices = [choice for event in events for choice in event.choices]
    said = "".join(choice.delta.content or "" for choice in choices)
    assert ("Thank you for the question. ".startswith(said), len(said) > 10) == (True, True)
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["content_filter"]


def test_a_whole_answer_ends_before_the_insult(openai: OpenAI) -> None:
    """Without a stream the verdict is the same."""
    answer = openai.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": "Go."}],
        max_tokens=60,
        temperature=0,
        extra_body={"structured_outputs": {"regex": PATTERN}},
    )
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (
        "Thank you for the question. ",
        "content_filter",
    )
