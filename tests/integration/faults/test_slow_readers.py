"""Readers that crawl: the pressure goes back to the engine's connection, memory stays flat, others notice nothing."""

import json
import time
from contextlib import ExitStack

import psutil
import pytest

from penstock.telemetry import names
from tests.support.clients.sockets import Stream, Wire
from tests.support.failures.table import FaultTable
from tests.support.platforms.readings import Fleet
from tests.support.samples.chat_bodies import CHAT, chat, long_answer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

READERS = 2
BUFFER_BYTES = 128 << 10
"""Well below what is streamed, and above the loopback's segments: with less, windows open by slow probes alone."""
MOST_GROWTH_BYTES = 24 << 20
STALL_S = 10.0
"""A gap that no busy machine explains: every token comes to a halt while the slow ones are waited for."""
WORDY = {"logprobs": True, "top_logprobs": 20}
"""Some kilobytes an event: more in all than every socket buffer on the way takes."""


def memory(fleet: Fleet) -> int:
    return sum(psutil.Process(pid).memory_info().rss for pid in fleet.platform.pids("gateway"))


def test_a_reader_of_one_byte_a_second(pair: Fleet, faults: FaultTable) -> None:
    """It is cut off when it has taken nothing for the stall time; the engine is free then and the memory was flat."""
    platform = pair.platform
    Stream(url=platform.url, key=platform.demo_key, body=chat()).start().join()
    cut = pair.counted(names.REQUESTS, outcome="slow_reader")
    before, began = memory(pair), time.monotonic()
    peak = before
    with ExitStack() as wires:
        slow = [wires.enter_context(Wire(platform.url, receive_buffer_bytes=BUFFER_BYTES)) for _ in range(READERS)]
        for wire in slow:
            wire.post(CHAT, {**long_answer(1800, **WORDY), "stream": True}, key=platform.demo_key)
        quick = Stream(url=platform.url, key=platform.demo_key, body=long_answer(150)).start()
        while pair.counted(names.REQUESTS, outcome="slow_reader") < cut + READERS:
            assert time.monotonic() - began < 200, f"not cut off: {[gate.load() for gate in pair.gates()]}"
            peak = max(peak, memory(pair))
            for wire in slow:
                crawl(wire)
            time.sleep(1)
        took_s = time.monotonic() - began
        assert quick.join().is_whole, quick.story
        pair.until_idle()
        assert all(wire.is_cut(within_s=10) for wire in slow)
    assert quick.longest_gap_s < STALL_S, "a reader beside them waited as if it were one of them"
    assert peak - before < MOST_GROWTH_BYTES, f"the gateway grew by {peak - before} bytes"
    faults.add(
        f"{READERS} readers at 1 byte/s",
        f"cut off as `slow_reader`; gateway grew by {(peak - before) / 2**20:.0f} MiB; a stream beside them whole",
        took_s,
    )


def crawl(wire: Wire) -> None:
    """Read one byte if there is one."""
    wire.sock.setblocking(False)
    try:
        wire.sock.recv(1)
    except OSError:
        return
    finally:
        wire.sock.settimeout(10)


def test_a_reader_that_pauses_and_goes_on_loses_nothing(pair: Fleet) -> None:
    """A pause shorter than the stall time costs nothing: the stream is whole and every token is there."""
    platform = pair.platform
    with Wire(platform.url, receive_buffer_bytes=BUFFER_BYTES) as wire:
        body = {**long_answer(120, **WORDY), "stream": True, "stream_options": {"include_usage": True}}
        wire.post(CHAT, body, key=platform.demo_key)
        events = wire.events()
        next(events)
        time.sleep(2)  # half the stall time: the pause is the test
        rest = list(events)
    assert rest[-1] == "[DONE]"
    assert sum(tokens(event) for event in rest[:-1]) >= 119, "an event may carry several tokens after a pause"


def tokens(event: str) -> int:
    return sum(len((choice.get("logprobs") or {}).get("content") or []) for choice in json.loads(event)["choices"])
