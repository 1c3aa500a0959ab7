"""A name that stands for rules, on the whole platform: set by the command line, asked by the official SDK."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import BadRequestError, OpenAI

from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

RULES = """
rules:
- {name: vectors, to: minilm}
- {name: short, to: smollm2, prompt_tokens: 60, tools: false}
- {name: rest, to: "VERSION"}
"""
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def version(platform: Platform, client: OpenAI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Set the rules, yield the version that the last one is pinned to, and take the name away."""
    pinned = str(client.models.retrieve("smollm2").model_dump()["version"])
    file = tmp_path_factory.mktemp("auto") / "rules.yaml"
    file.write_text(RULES.replace("VERSION", pinned))
    shown = platform.run("aliases", "auto", "auto", "--file", str(file)).stdout
    assert "prompts of at most 60 tokens" in shown
    until("the gateway knows it", lambda: "auto" in {one.id for one in client.models.list()}, within_s=10)
    yield pinned
    platform.run("aliases", "auto", "auto", "--remove")
    until("the gateway knows it no more", lambda: "auto" not in {one.id for one in client.models.list()}, within_s=10)


def ask(client: OpenAI, text: str, **more: object) -> tuple[str, str, str]:
    """Return rule, version and what was said."""
    told = client.chat.completions.with_raw_response.create(  # type: ignore[call-overload]
        model="auto", messages=[{"role": "user", "content": text}], max_tokens=12, temperature=0, **more
    )
    said = told.parse().choices[0].message.content or ""
    return told.headers["x-penstock-auto"], told.headers["x-penstock-version"], said


def test_real_models_are_chosen_by_their_own_tokens(client: OpenAI, version: str) -> None:
    """A short question, a long one, one with tools, and a text to embed, all under one name."""
    rule, served, said = ask(client, "What is the capital of Japan? Answer in one word.")
    assert (rule, served, "Tokyo" in said) == ("short", version, True)
    assert ask(client, "Count to ten. " * 20)[:2] == ("rest", version)
    assert ask(client, "Hi", tools=[TOOL])[:2] == ("rest", version)
    vectors = client.embeddings.with_raw_response.create(model="auto", input="A kitten sleeps.")
    assert (vectors.headers["x-penstock-auto"], len(vectors.parse().data[0].embedding)) == ("vectors", 384)


def test_the_ledger_has_the_version_that_answered(platform: Platform, client: OpenAI, version: str) -> None:
    """An auto alias has no bill of its own: its model has."""
    told = client.chat.completions.with_raw_response.create(
        model="auto", messages=[{"role": "user", "content": "Hi"}], max_tokens=3
    )
    request = told.headers["x-request-id"]

    def row() -> list[str]:
        return [one["version"] for one in platform.usage("demo") if one["request"] == request]

    until("the row is delivered", lambda: bool(row()))
    assert row() == [version]
    story = platform.run("explain", request).stdout
    assert "Of the rules of auto, short led it to smollm2" in re.sub(r"\s+", " ", story)


def test_bad_rules_are_refused_with_words(platform: Platform, client: OpenAI, version: str, tmp_path: Path) -> None:
    """The author reads them on the screen; the rules in force stay."""
    file = tmp_path / "rules.yaml"
    for text, says in (
        ("rules: [{name: a, to: auto}]", "has rules itself"),
        ("rules: [{name: a, to: gpt-9}]", "no alias and no version"),
        ("rules: [{name: a, to: minilm, apis: [/v1/chat/completions]}]", "fits nothing"),
        ("rules: [&a {name: a, to: minilm}, *a]", "refers to a part"),
        ("rules: [{name: a, to: minilm, price: .nan}]", "is not finite"),
    ):
        file.write_text(text)
        done = platform.run("aliases", "auto", "auto", "--file", str(file), check=False)
        assert done.returncode == 1
        assert says in re.sub(r"\s+", " ", done.stderr)
        assert "Traceback" not in done.stderr
    assert ask(client, "Hi")[:2] == ("short", version)
    listed = re.sub(r"\s+", " ", platform.run("aliases", "list").stdout)
    assert "by rules" in listed
    refused = platform.run("aliases", "remove", "smollm2", check=False)
    assert "a rule leads to smollm2" in re.sub(r"\s+", " ", refused.stderr)


def test_a_cap_that_nothing_meets_is_told(client: OpenAI, version: str) -> None:
    """The caller's own word on the price, in dollars for a million tokens."""
    del version
    with pytest.raises(BadRequestError, match="dearer than the price cap"):
        ask(client, "Hi", extra_headers={"x-penstock-price-cap": "0.000001"})
