"""What goes over the wire to a gate."""

import msgspec
import pytest

from penstock.domain.serving.request import Api
from penstock.gateway.dispatch import wire
from tests.support.samples import calls

TOLD = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}, "stream_interval": 20}


@pytest.mark.parametrize(
    ("api", "stream", "options"),
    [
        (Api.CHAT, True, {"include_usage": True}),
        (Api.COMPLETIONS, True, {"include_usage": True}),
        (Api.RESPONSES, True, None),
        (Api.CHAT, False, None),
    ],
)
def test_callers_do_not_shape_how_tokens_come(api: Api, stream: bool, options: dict[str, bool] | None) -> None:
    """Finding 4: no lots of tokens in one event, no account with each of them; the account at the end always."""
    request = calls.request(api=api, stream=stream, body={"model": "toy", **TOLD})
    sent = msgspec.json.decode(wire.body_of(request, calls.VERSION.id, "salt"))
    assert sent.get("stream_options") == options
    assert "stream_interval" not in sent
    assert sent["model"] == calls.VERSION.id


def test_an_answer_of_the_responses_api_has_the_requests_id() -> None:
    """Its engine takes the answer's id from the body; the others take it from the header, and get no such field."""
    request = calls.request(api=Api.RESPONSES)
    sent = msgspec.json.decode(wire.body_of(request, calls.VERSION.id, "salt"))
    assert sent["request_id"] == f"resp_{request.id}"
    assert "request_id" not in msgspec.json.decode(wire.body_of(calls.request(), calls.VERSION.id, "salt"))
