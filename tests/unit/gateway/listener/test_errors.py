import msgspec
import pytest

from penstock.domain.errors import (
    DeadlineExceeded,
    ExceedsLimit,
    InvalidField,
    NoCapacity,
    OverLimit,
    StoreUnavailable,
    StreamBroken,
    Unauthenticated,
)
from penstock.domain.ids import RequestId
from penstock.domain.serving.request import Api
from penstock.gateway.listener.errors import in_band, response_of, retry_after_s

ID = RequestId("r-1")


def test_a_refusal_has_openais_shape_with_our_fields() -> None:
    """Message, type, code and field at fault are where OpenAI's clients look for them."""
    status, headers, body = response_of(InvalidField("no", param="n"), ID)
    assert status == 400
    assert msgspec.json.decode(body) == {
        "error": {
            "message": "no",
            "type": "invalid_request_error",
            "code": "invalid_field",
            "param": "n",
            "reason": None,
            "request_id": "r-1",
            "retryable": False,
            "retry_after": None,
        }
    }
    assert dict(headers)[b"x-should-retry"] == b"false"
    assert b"retry-after" not in dict(headers)


def test_the_messages_api_gets_anthropics_shape() -> None:
    """The same error under the other API keeps its status and fields."""
    status, _, body = response_of(OverLimit(retry_after_s=2.1), ID, Api.MESSAGES)
    told = msgspec.json.decode(body)
    assert (status, told["type"], told["error"]["type"], told["error"]["code"]) == (
        429,
        "error",
        "rate_limit_error",
        "rate_limit_exceeded",
    )


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, None), (0.0, 1), (0.2, 1), (2.0, 2), (2.001, 3), (float("inf"), None)]
)
def test_retry_after_is_whole_seconds_rounded_up(seconds: float | None, told: int | None) -> None:
    """A client never comes back too early, and never at once."""
    error = NoCapacity(retry_after_s=seconds)
    assert retry_after_s(error) == told
    header = dict(response_of(error, ID)[1]).get(b"retry-after")
    assert header == (None if told is None else str(told).encode())


def test_a_store_that_is_away_always_tells_a_wait() -> None:
    """A store that names no wait gets the usual one; one that names its own keeps it."""
    assert (retry_after_s(StoreUnavailable()), retry_after_s(StoreUnavailable(retry_after_s=7.0))) == (2, 7)


def test_the_exact_wait_stands_beside_the_whole_seconds() -> None:
    """Official SDKs read milliseconds first, so that nobody waits a second for a slot that is free in 40 ms."""
    told = dict(response_of(NoCapacity(retry_after_s=0.0401), ID)[1])
    assert (told[b"retry-after"], told[b"retry-after-ms"]) == (b"1", b"41")


def test_a_refusal_tells_its_reason_and_what_is_left() -> None:
    """Head and body name the limit, and the caller's headers go out with it."""
    error = OverLimit("no", retry_after_s=2.0, reason="key_tokens", headers=[(b"x-ratelimit-limit-tokens", b"9")])
    _, headers, body = response_of(error, ID)
    told = dict(headers)
    assert (told[b"x-penstock-reason"], told[b"x-ratelimit-limit-tokens"]) == (b"key_tokens", b"9")
    assert msgspec.json.decode(body)["error"]["reason"] == "key_tokens"
    alone = dict(response_of(ExceedsLimit(), ID)[1])
    assert (alone[b"x-should-retry"], b"retry-after" in alone) == (b"false", False)


def test_a_refused_credential_comes_with_a_challenge() -> None:
    """A 401 carries WWW-Authenticate, as RFC 9110 demands."""
    assert dict(response_of(Unauthenticated(), ID)[1])[b"www-authenticate"] == b"Bearer"


def test_in_band_errors_are_events_that_each_sdk_understands() -> None:
    """Chat streams get plain data with an error, the other two a named event."""
    chat = in_band(StreamBroken(), ID, Api.CHAT)
    assert chat.startswith(b'data: {"error":{"message":')
    assert chat.endswith(b"}\n\n")
    assert in_band(DeadlineExceeded(), ID, Api.MESSAGES).startswith(b'event: error\ndata: {"type":"error"')
    flat = msgspec.json.decode(in_band(StreamBroken(), ID, Api.RESPONSES).split(b"data: ")[1])
    assert (flat["type"], flat["code"]) == ("error", "stream_broken")
