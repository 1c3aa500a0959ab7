"""What goes over the wire to a gate."""

from dataclasses import replace

import msgspec
import pytest

from penstock.domain.models.model import SamplingDefaults
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.cost import Cost
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
    """No lots of tokens in one event; the account at the end always, and with each event as the body was parsed."""
    request = calls.request(api=api, stream=stream, body={"model": "toy", **TOLD})
    sent = msgspec.json.decode(wire.body_of(request, calls.VERSION, "salt"))
    assert sent.get("stream_options") == options
    assert "stream_interval" not in sent
    assert sent["model"] == calls.VERSION.id


def test_an_answer_of_the_responses_api_has_the_requests_id() -> None:
    """Its engine takes the answer's id from the body; the others take it from the header, and get no such field."""
    request = calls.request(api=Api.RESPONSES)
    sent = msgspec.json.decode(wire.body_of(request, calls.VERSION, "salt"))
    assert sent["request_id"] == f"resp_{request.id}"
    assert "request_id" not in msgspec.json.decode(wire.body_of(calls.request(), calls.VERSION, "salt"))


def test_no_engine_keeps_a_response() -> None:
    """Its own store is one process's memory; turns before and the background are the platform's."""
    asked = {"store": True, "background": True, "previous_response_id": "resp_1", "input": "hi"}
    sent = msgspec.json.decode(wire.body_of(calls.request(api=Api.RESPONSES, body=asked), calls.VERSION, "salt"))
    assert sent["store"] is False
    assert not sent.keys() & {"background", "previous_response_id"}


def test_usage_with_each_event_is_asked_for() -> None:
    """``continuous_usage_stats`` goes to the engine, with the account at the end."""
    request = calls.request(stream=True, include_usage=True, usage_each=True)
    sent = msgspec.json.decode(wire.body_of(request, calls.VERSION, "salt"))
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("fields", "default", "is_said_anew"),
    [
        ({"temperature": 0}, None, True),
        ({"temperature": 0.0, "top_k": 40, "top_p": 0.5}, None, True),
        ({"temperature": None}, 0.0, True),
        ({}, 0.0, True),
        ({}, None, False),
        ({"temperature": 0.7}, 0.0, False),
        ({"temperature": 0, "use_beam_search": True}, None, False),
    ],
)
def test_several_greedy_choices_are_said_as_sampling(
    fields: dict[str, object], default: float | None, is_said_anew: bool
) -> None:
    """The engine refuses them at temperature 0, and the likeliest one of one token is the same token."""
    version = replace(calls.VERSION, sampling=SamplingDefaults(temperature=default))
    request = calls.request(body={"model": "toy", "n": 3, **fields}, cost=Cost(sequences=3))
    sent = msgspec.json.decode(wire.body_of(request, version, "salt"))
    assert ((sent.get("temperature"), sent.get("top_k")) == (1.0, 1)) is is_said_anew
    alone = replace(request, cost=Cost(sequences=1))
    assert fields.items() <= msgspec.json.decode(wire.body_of(alone, version, "salt")).items()
