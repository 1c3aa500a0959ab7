"""The other APIs through the official SDK: models, completions, embeddings, responses; and messages over plain HTTP."""

import math

import pytest
from openai import OpenAI

from tests.support.engines.likeness import COUNTING
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration


def cosine(left: list[float], right: list[float]) -> float:
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return dot / math.dist(left, [0.0] * len(left)) / math.dist(right, [0.0] * len(right))


def version_of(client: OpenAI, alias: str) -> str:
    """Return the pinned name behind an alias, as an answer's header tells it."""
    raw = client.chat.completions.with_raw_response.create(
        model=alias, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
    )
    return str(raw.headers["x-penstock-version"])


def test_models_are_listed_by_alias_and_by_version(client: OpenAI) -> None:
    """What may be put into ``model`` stands in the list: the aliases, and each version with its digest."""
    names = {model.id for model in client.models.list()}
    assert {"smollm2", "minilm"} <= names
    assert version_of(client, "smollm2") in names


def test_a_pinned_version_answers(client: OpenAI) -> None:
    """``name@digest`` reaches exactly that version."""
    pinned = version_of(client, "smollm2")
    assert "@" in pinned
    assert version_of(client, pinned) == pinned


def test_a_completion_continues_the_text(client: OpenAI) -> None:
    """The older completions API works, unary and streamed."""
    unary = client.completions.create(model="smollm2", prompt="The capital of Japan is", max_tokens=8, temperature=0)
    assert "Tokyo" in unary.choices[0].text
    whole = client.completions.create(model="smollm2", prompt=COUNTING, max_tokens=8, temperature=0)
    stream = client.completions.create(model="smollm2", prompt=COUNTING, max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == whole.choices[0].text


def test_embeddings_bring_like_things_together(client: OpenAI) -> None:
    """Several texts in one call give unit vectors in order, and meaning decides their distance."""
    texts = ["A cat sits on the mat.", "A kitten rests on the rug.", "The stock market fell sharply."]
    answer = client.embeddings.create(model="minilm", input=texts, encoding_format="float")
    cat, kitten, market = (item.embedding for item in sorted(answer.data, key=lambda item: item.index))
    assert len(cat) == 384
    assert cosine(cat, cat) == pytest.approx(math.dist(cat, [0.0] * 384) ** 2, abs=1e-3)
    assert cosine(cat, kitten) > cosine(cat, market) + 0.3
    assert answer.usage.prompt_tokens > 10


def test_embeddings_in_the_sdks_default_encoding(client: OpenAI) -> None:
    """The SDK asks for base64 by itself and gets the same numbers."""
    floats = client.embeddings.create(model="minilm", input="A cat", encoding_format="float").data[0].embedding
    default = client.embeddings.create(model="minilm", input="A cat").data[0].embedding
    assert default == pytest.approx(floats, abs=1e-5)


def test_responses(client: OpenAI) -> None:
    """The responses API of the engine is reachable through the gateway."""
    answer = client.responses.create(
        model="smollm2", input="What is the capital of Japan?", temperature=0, max_output_tokens=16
    )
    assert "Tokyo" in answer.output_text


def test_messages(platform: Platform) -> None:
    """The messages API of the engine is reachable through the gateway; what the cache spared is in the bill too."""
    body = {
        "model": "smollm2",
        "max_tokens": 16,
        "temperature": 0,
        "messages": [{"role": "user", "content": "What is the capital of Japan, and of which islands is it made up?"}],
    }
    with platform.http() as http:
        counted = http.post("/v1/messages/count_tokens", json={**body, "max_tokens": None})
        answers = [http.post("/v1/messages", json=body) for _ in range(2)]
        streamed = http.post("/v1/messages", json={**body, "stream": True})
    assert "Tokyo" in answers[0].json()["content"][0]["text"]
    assert "message_stop" in streamed.text
    ids = [answer.headers["x-request-id"] for answer in (*answers, streamed)]

    rows: dict[str, dict[str, str]] = {}

    def are_there() -> bool:
        rows.update({row["request"]: row for row in platform.usage("demo") if row["request"] in ids})
        return rows.keys() == set(ids)

    until("all three are in the ledger", are_there, every_s=0.5)
    prompts = {int(row["prompt_tokens"]) for row in rows.values()}
    assert prompts == {counted.json()["input_tokens"]}, "one prompt has one length, cached, counted beforehand or not"
    assert all(0 < int(rows[again]["cached_tokens"]) < min(prompts) for again in ids[1:])
