"""Cache fields with both SDKs on a running platform: written and read tokens are told, and read ones are priced."""

import secrets

import pytest
from anthropic import Anthropic
from anthropic.types import MessageParam, TextBlockParam
from openai import OpenAI

from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

MODEL = "smollm2"
TENANT = "demo"


@pytest.fixture
def long() -> str:
    """Return a prompt of some blocks that nobody has sent before."""
    return f"{secrets.token_hex(8)} " + "the quick brown fox jumps over the lazy dog and comes home late " * 12


def test_openai_tells_written_and_read_tokens(platform: Platform, client: OpenAI, long: str) -> None:
    """The first request writes what the second reads; the bill takes the read ones at the cached price."""
    told = []
    for _ in range(2):
        made = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": long}],
            max_tokens=2,
            prompt_cache_key="fox",
            prompt_cache_options={"mode": "implicit", "ttl": "30m"},
        )
        assert made.usage is not None
        assert made.usage.prompt_tokens_details is not None
        told.append((made.usage.prompt_tokens_details, (made.model_extra or {})["penstock"]["request_id"]))
    (first, _), (second, request) = told
    assert first.cached_tokens == 0
    assert first.cache_write_tokens
    assert second.cached_tokens == first.cache_write_tokens

    def row() -> dict[str, str] | None:
        return next((one for one in platform.usage(TENANT) if one["request"] == request), None)

    until("the row is delivered", lambda: row() is not None)
    assert int((row() or {})["cached_tokens"]) == second.cached_tokens


def test_anthropic_tells_written_and_read_tokens(platform: Platform, long: str) -> None:
    """Breakpoints are hints: what the cache wrote and read is in usage, and all three add up to the prompt."""
    block: TextBlockParam = {"type": "text", "text": long, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    turns: list[MessageParam] = [{"role": "user", "content": [block]}]
    with Anthropic(base_url=platform.url, api_key=platform.demo_key, max_retries=0, timeout=120) as sdk:
        first, second = (
            sdk.messages.create(model=MODEL, messages=turns, max_tokens=2, inference_geo="local").usage
            for _ in range(2)
        )
    assert first.cache_creation_input_tokens
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    sums = [
        one.input_tokens + (one.cache_read_input_tokens or 0) + (one.cache_creation_input_tokens or 0)
        for one in (first, second)
    ]
    assert sums[0] == sums[1]
    assert first.inference_geo == "local"
