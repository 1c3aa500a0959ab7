"""Errors as a caller of the official SDK meets them: the right exception class, code and fields."""

from collections.abc import Callable

import openai
import pytest
from openai import OpenAI

from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

HI = [{"role": "user", "content": "Hi"}]


def failure(call: Callable[[], object]) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    return caught.value


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    """The error names the code and the request."""
    error = failure(lambda: client.chat.completions.create(model="gpt-9", messages=HI))  # type: ignore[arg-type]
    assert isinstance(error, openai.NotFoundError)
    assert error.code == "model_not_found"
    assert error.request_id


def test_a_wrong_key_is_refused(platform: Platform) -> None:
    """Neither a made-up key nor a well-formed unknown one gets in."""
    with OpenAI(base_url=f"{platform.url}/v1", api_key="psk_nobody", max_retries=0) as stranger:
        error = failure(stranger.models.list)
    assert isinstance(error, openai.AuthenticationError)
    assert error.code == "invalid_api_key"


@pytest.mark.parametrize(
    "fields",
    [{"temperature": "hot"}, {"max_tokens": -1}, {"messages": "hello"}, {"n": 0}],
    ids=["type", "negative", "messages", "zero"],
)
def test_a_bad_field_is_a_bad_request(client: OpenAI, fields: dict[str, object]) -> None:
    """A wrong type or value is the caller's error, never ours."""
    body = {"model": "smollm2", "messages": HI, "max_tokens": 4, **fields}
    error = failure(lambda: client.post("/chat/completions", body=body, cast_to=object))
    assert isinstance(error, openai.BadRequestError)
    assert error.request_id


def test_a_prompt_beyond_the_context_is_refused_before_the_engine(client: OpenAI) -> None:
    """A prompt of many thousand tokens ends in the code that clients look for."""
    error = failure(
        lambda: client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "word " * 20_000}]
        )
    )
    assert isinstance(error, openai.BadRequestError)
    assert error.code == "context_length_exceeded"


def test_an_api_that_the_model_does_not_offer(client: OpenAI) -> None:
    """A chat model does not embed, and says so."""
    error = failure(lambda: client.embeddings.create(model="smollm2", input="A cat"))
    assert isinstance(error, openai.BadRequestError | openai.NotFoundError)
    assert error.code == "unsupported_by_model"


def test_an_error_has_the_published_fields(platform: Platform) -> None:
    """OpenAI's shape with our fields: code, whether to try again, the request's id."""
    with platform.http() as http:
        answer = http.post("/v1/chat/completions", content=b"{not json")
    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["code"] == "malformed_body"
    assert error["retryable"] is False
    assert error["request_id"] == answer.headers["x-request-id"]
