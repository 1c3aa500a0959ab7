"""Load that brings one cause about while a block lasts: streams in loops, long prompts, floods, slow readers."""

import http.client
import itertools
import json
import multiprocessing
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from tests.support.clients.sockets import Wire
from tests.support.samples.chat_bodies import CHAT, chat, long_answer, long_prompt

WORDY = {"logprobs": True, "top_logprobs": 20}
"""Some kilobytes an event, so that a slow reader is felt."""
BUFFER_BYTES = 16 << 10
SEGMENT_BYTES = 1 << 10
READER_BYTES = 1 << 10
READER_EVERY_S = 0.1
READER_LEAVES_S = 8.0
REFUSED_EVERY_S = 0.25
"""A client that is refused comes back so soon: sooner than it is told, as many do."""

RIVALS = 8
"""Busy processes beside one that is to be starved."""

Stop = threading.Event
Load = AbstractContextManager[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    url: str
    key: str


@contextmanager
def several(count: int, work: Callable[[Stop, int], None]) -> Iterator[None]:
    """Have ``count`` threads do this until the block ends, each with its number."""
    stop = Stop()
    threads = [threading.Thread(target=work, args=(stop, number), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def streams(caller: Caller, count: int, *, tokens: int, pause_s: float = 0.0) -> Load:
    """Keep ``count`` streams running, each begun when its predecessor has ended."""
    body = long_answer(tokens, stream=True)
    return several(count, lambda stop, _: _again(stop, caller, lambda: body, pause_s))


def prompts(caller: Caller, *, tokens: int, pause_s: float) -> Load:
    """Send prompts of this length one after another, each a new one, for one token."""
    numbers = itertools.count()
    return several(
        1,
        lambda stop, _: _again(
            stop, caller, lambda: long_prompt(next(numbers), tokens, stream=True) | {"max_tokens": 1}, pause_s
        ),
    )


def slow_readers(caller: Caller, count: int) -> Load:
    """Read long, wordy streams a few kilobytes at a time, and leave after some seconds."""
    return several(count, lambda stop, _: _crawl(stop, caller))


def _again(stop: Stop, caller: Caller, body: Callable[[], dict[str, object]], pause_s: float) -> None:
    while not stop.is_set():
        stop.wait(pause_s if _ask(stop, caller, body()) else REFUSED_EVERY_S)


def _ask(stop: Stop, caller: Caller, body: dict[str, object]) -> bool:
    """Read one stream to its end, or until told to stop; tell whether it was let in."""
    with suppress(OSError, http.client.HTTPException), Wire(caller.url) as wire:
        wire.post(CHAT, body, key=caller.key)
        answer = wire.answer()
        for _ in answer:
            if stop.is_set():
                break
        return answer.status == http.client.OK
    return False


def _crawl(stop: Stop, caller: Caller) -> None:
    while not stop.is_set():
        small = {"receive_buffer_bytes": BUFFER_BYTES, "segment_bytes": SEGMENT_BYTES}
        with suppress(OSError), Wire(caller.url, **small) as wire:
            wire.post(CHAT, long_answer(1800, stream=True, **WORDY), key=caller.key)
            leave_at = time.monotonic() + READER_LEAVES_S
            while time.monotonic() < leave_at and not stop.wait(READER_EVERY_S):
                wire.sock.recv(READER_BYTES)
            wire.leave(rudely=True)


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """Keep a process on one core, together with busy ones that leave it a ninth."""
    process = psutil.Process(pid)
    cores = process.cpu_affinity() or [0]
    spin = f"import os\nos.sched_setaffinity(0, {{{cores[0]}}})\nwhile True: pass"
    rivals = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(RIVALS)]
    process.cpu_affinity(cores[:1])
    try:
        yield
    finally:
        process.cpu_affinity(cores)
        for rival in rivals:
            rival.kill()
            rival.wait()


@contextmanager
def flood(caller: Caller, connections: int) -> Iterator[None]:
    """Send requests that a gateway refuses after reading them, on this number of connections, each as soon as it was
    answered.

    They come from a process of their own: the test's threads are to feel the gateway, not this.
    """
    body = json.dumps(chat("word " * 1200) | {"model": "no-such-model"}).encode()
    with Wire(caller.url) as wire:
        named = {"content-type": "application/json", "authorization": f"Bearer {caller.key}"}
        request = wire.head("POST", CHAT, {**named, "content-length": str(len(body))}) + body
    process = multiprocessing.get_context("spawn").Process(target=_flood, args=(caller.url, request, connections))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _flood(url: str, request: bytes, connections: int) -> None:
    where, ready = urlsplit(url), selectors.DefaultSelector()
    with ExitStack() as open_:
        for _ in range(connections):
            sock = open_.enter_context(socket.create_connection((where.hostname or "", where.port or 80)))
            ready.register(sock, selectors.EVENT_READ)
            sock.sendall(request)
        while True:
            for key, _ in ready.select():
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.recv(1 << 16)
                key.fileobj.sendall(request)
