"""A batch tenant with ``batch_yield=strict`` on real vLLM: its requests stand still beside an interactive tenant."""

import time

import pytest

from tests.support.clients.sockets import Stream
from tests.support.platforms.local import Platform
from tests.support.platforms.tenants import key_of
from tests.support.samples.chat_bodies import PATIENT, chat

pytestmark = [pytest.mark.integration, pytest.mark.timeout(550)]

LINES, TOKENS = 3, 60
QUESTIONS = 2
IN_FLIGHT = 2
"""Tokens of a step that had begun, and of the one behind it."""


def begin(streams: list[Stream]) -> None:
    """Wait until all of them are decoded."""
    end = time.monotonic() + 300
    while any(len(stream.times) < 5 for stream in streams):
        assert time.monotonic() < end, [stream.story for stream in streams]
        time.sleep(0.02)


def test_running_batch_requests_stand_still_and_end(platform: Platform) -> None:
    """While an interactive tenant asks and reads they make no token; after a pause they go on, and lose none."""
    name = f"yields{time.time_ns():x}"
    batch = key_of(platform, f"{name}-batch", priority="batch", batch_yield="strict")
    reader = key_of(platform, f"{name}-reader", priority="interactive")
    bodies = [chat(f"{number} Tell.", max_tokens=TOKENS, ignore_eos=True) for number in range(LINES)]
    lines = [Stream(url=platform.url, key=batch, body=body, says=PATIENT).start() for body in bodies]
    begin(lines)
    asked = []
    for number in range(QUESTIONS):
        body = chat(f"{number} Who?", max_tokens=6, ignore_eos=True)
        asked.append(Stream(url=platform.url, key=reader, body=body).start().join(200))
        time.sleep(0.2)
    assert all(one.is_whole for one in asked)
    began, ended = asked[0].times[0], asked[-1].times[-1]
    meanwhile = [sum(began < at < ended for at in line.times) for line in lines]
    assert max(meanwhile) <= IN_FLIGHT, "they stand still from the first step of the question on"
    assert all(line.join(300).is_whole for line in lines)
    assert {len(line.times) for line in lines} == {TOKENS + 1}, "each token once, and the reason of the end"
