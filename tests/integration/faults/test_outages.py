"""Controller, database and gateway die while streams run and requests come; workers and gateways are replaced."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from tests.support.clients.sockets import Stream
from tests.support.failures.table import FaultTable
from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.samples.chat_bodies import CHAT, chat, long_answer
from tests.support.variants import drilled

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

STREAMS = 3
STEERING = ["controller", "postgres"]
FROZEN_S = 4.0
"""Longer than a worker's lease of 3 s."""


@dataclass(kw_only=True)
class Traffic:
    """Streams one after another in some threads and unary requests in one, until told to stop."""

    platform: Platform
    tokens: int = 60
    streams: list[Stream] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin, and wait until every stream has a token."""
        self._threads = [threading.Thread(target=self._stream) for _ in range(STREAMS)]
        self._threads.append(threading.Thread(target=self._ask))
        for thread in self._threads:
            thread.start()
        until("streams run", lambda: len([s for s in self.streams if s.tokens]) >= STREAMS, within_s=30)

    def stop(self) -> None:
        """Let what runs come to its end."""
        self._over.set()
        for thread in self._threads:
            thread.join(90)

    def _stream(self) -> None:
        while not self._over.is_set():
            body = long_answer(self.tokens)
            stream = Stream(url=self.platform.url, key=self.platform.demo_key, body=body).start()
            self.streams.append(stream)
            stream.join(90)

    def _ask(self) -> None:
        while not self._over.wait(0.1):
            try:
                with self.platform.http() as http:
                    answer = http.post(CHAT, json=chat("Hi"))
            except httpx.HTTPError as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                continue
            self.answers.append(answer.status_code)
            self.slowest_s = max(self.slowest_s, answer.elapsed.total_seconds())

    def check(self) -> None:
        assert [stream.story for stream in self.streams if not stream.is_whole] == []
        assert self.faults == []
        assert set(self.answers) == {200}

    @property
    def story(self) -> str:
        return f"{len(self.streams)} streams and {len(self.answers)} requests, all whole"


@contextmanager
def traffic(fleet: Fleet) -> Iterator[Traffic]:
    """Run traffic around a fault; check afterwards that it was not felt."""
    running = Traffic(platform=fleet.platform)
    running.start()
    try:
        yield running
    finally:
        running.stop()
    running.check()


def until_back(platform: Platform, name: str, killed: list[int]) -> None:
    until(
        f"the {name} is back",
        lambda: bool(now := platform.pids(name)) and 0 not in now and not set(now) & set(killed),
        within_s=30,
    )


def until_steerable(platform: Platform) -> None:
    """Wait until an operator's act works: controller and database serve again."""

    def is_steerable() -> bool:
        with suppress(OSError, httpx.HTTPError):
            return bool(platform.act("GET", "/keys"))
        return False

    until("operators are served", is_steerable, within_s=40, every_s=0.2)


@pytest.mark.parametrize("names", [STEERING, *drilled([[name] for name in STEERING])], ids=" and ".join)
def test_serving_goes_on_without_what_is_behind_it(pair: Fleet, faults: FaultTable, names: Sequence[str]) -> None:
    """Streams that run, and requests that come, are answered while the processes are dead; and they come back."""
    platform = pair.platform
    with traffic(pair) as running:
        began = time.monotonic()
        killed = {name: platform.kill(name) for name in names}
        for name, pids in killed.items():
            until_back(platform, name, pids)
        back_s = time.monotonic() - began
        until_steerable(platform)
    faults.add(f"`kill -9` of {' and '.join(names)} under load", running.story, back_s)


@pytest.mark.parametrize("names", [[*STEERING, "worker"], *drilled([STEERING, ["worker"]])], ids=" and ".join)
def test_serving_goes_on_with_what_steers_it_frozen(pair: Fleet, faults: FaultTable, names: Sequence[str]) -> None:
    """With controller, database and all agents stopped for longer than a lease, engines serve all callers."""
    platform = pair.platform
    stopped = [pid for name in names for pid in platform.pids(name)]
    with traffic(pair) as running:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(FROZEN_S)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        until_steerable(platform)
    pair.until_ready(2)
    faults.add(f"{' and '.join(names)} frozen for {FROZEN_S:g} s under load", running.story)


@pytest.mark.parametrize("what", ["gateway", pytest.param("workers", marks=pytest.mark.drill)])
def test_a_rolling_restart_breaks_no_stream(pair: Fleet, faults: FaultTable, what: str) -> None:
    """Under load every gateway, or every worker, is replaced by another process and no answer is cut."""
    platform = pair.platform
    kind = "worker" if what == "workers" else what
    before = set(platform.pids(kind))
    with traffic(pair) as running:
        began = time.monotonic()
        platform.run("restart", what)
        until(f"every {kind} is another", lambda: not before & set(platform.pids(kind)), within_s=150, every_s=0.2)
        pair.until_ready(2)
        took_s = time.monotonic() - began
    faults.add(f"rolling restart: {what}", running.story, took_s)


def test_a_killed_gateway_is_followed_by_another(pair: Fleet, books: Books, faults: FaultTable) -> None:
    """Streams of a killed gateway break off without a false end; a successor serves waiting callers and writes the
    rows.
    """
    platform = pair.platform
    stream = Stream(url=platform.url, key=platform.demo_key, body=long_answer(400)).start()
    until("tokens come", lambda: stream.tokens >= 3, within_s=20)
    killed = platform.kill("gateway")
    began = time.monotonic()
    with platform.http(timeout_s=20) as http:
        answer = http.post(CHAT, json=chat("Hi"))
    took_s = time.monotonic() - began
    assert answer.status_code == 200
    stream.join(10)
    assert not stream.done
    pair.until_idle(within_s=5)
    until_back(platform, "gateway", killed)
    began = time.monotonic()
    books.balance()
    faults.add(
        "`kill -9` of the gateway: its leases free, its row written", "one row, no hold", time.monotonic() - began
    )
    [row] = books.left_behind
    assert row["request"] == stream.headers["x-request-id"]
    # What was generated, as the worker counted it: the engine went on until it saw that nobody reads.
    assert 0 < row["output_tokens"] < 400
    faults.add("`kill -9` of the gateway", "streams cut without `[DONE]`, engine free; next request answered", took_s)
