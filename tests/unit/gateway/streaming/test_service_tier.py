"""The tier that served, in each API's own field: nothing else of an answer changes."""

import json
from dataclasses import replace

import pytest

from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Priority, ServiceTier, TierName
from penstock.gateway.streaming import service_tier
from tests.support.samples.calls import call

FLEX = ServiceTier(name=TierName.FLEX, priority=Priority.BATCH, price_factor=0.5)
DECOY = json.dumps('"service_tier":null "usage":{ "object":"chat.completion.chunk" "service_tier":"auto","status":')
"""A text that looks like each mark: in JSON its quotes are escaped."""


def named(api: Api, body: str, *, stream: bool = False) -> str:
    """Return the answer of a request that was served as flex."""
    admitted = call(api=api, stream=stream, body={"service_tier": "flex"})
    edit = service_tier.naming(replace(admitted, principal=replace(admitted.principal, tier=FLEX)))
    assert edit is not None
    return edit(body.encode()).decode()


@pytest.mark.parametrize(
    ("api", "stream", "engines", "told"),
    [
        (Api.CHAT, False, '{"choices":[%s],"service_tier":null}', '{"choices":[%s],"service_tier":"flex"}'),
        (
            Api.CHAT,
            True,
            'data: {"object":"chat.completion.chunk","choices":[%s]}\n\n',
            'data: {"object":"chat.completion.chunk","service_tier":"flex","choices":[%s]}\n\n',
        ),
        (
            Api.COMPLETIONS,
            True,
            'data: {"object":"text_completion","choices":[%s]}\n\n',
            'data: {"object":"text_completion","service_tier":"flex","choices":[%s]}\n\n',
        ),
        (
            Api.RESPONSES,
            True,
            'data: {"output":[%s],"service_tier":"auto","status":"completed"}\n\n',
            'data: {"output":[%s],"service_tier":"flex","status":"completed"}\n\n',
        ),
        (
            Api.MESSAGES,
            False,
            '{"content":[%s,{"input":{"usage":{"a":1}}}],"usage":{"input_tokens":1}}',
            '{"content":[%s,{"input":{"usage":{"a":1}}}],"usage":{"service_tier":"batch","input_tokens":1}}',
        ),
        (
            Api.MESSAGES,
            True,
            'event: message_start\ndata: {"message":{"id":%s,"usage":{"input_tokens":1}}}\n\n',
            'event: message_start\ndata: {"message":{"id":%s,"usage":{"service_tier":"batch","input_tokens":1}}}\n\n',
        ),
    ],
)
def test_the_tier_stands_in_the_apis_own_field(api: Api, stream: bool, engines: str, told: str) -> None:
    """A text that looks like the mark stays as the model wrote it."""
    assert named(api, engines % DECOY, stream=stream) == told % DECOY


def test_an_answer_that_nobody_asked_the_tier_of_stays_as_it_is() -> None:
    """Chat and completions name it if the request did; events behind a message's first one are left alone."""
    assert service_tier.naming(call(api=Api.CHAT)) is None
    delta = 'event: message_delta\ndata: {"usage":{"output_tokens":1}}\n\n'
    assert named(Api.MESSAGES, delta, stream=True) == delta
