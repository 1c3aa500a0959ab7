"""Gateways of one machine scale on the supervisor's socket: real processes are added, and drain before they end."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import httpx
import pytest

from penstock.domain.clock import SystemClock
from penstock.local.database import Database
from penstock.local.gateways import LocalGateways
from penstock.local.services import has_ready_file
from penstock.local.shutdown import PlatformParts
from penstock.supervision.child import Command
from penstock.supervision.supervisor import ChildSpec, Supervisor
from tests.support.gateways.process import Home, prepare
from tests.support.gateways.shared_limits import Stub, stub
from tests.support.patience import patient

pytestmark = pytest.mark.integration
TOKENS, STEP_MS = 200, 20
"""A stream of four seconds: twenty times the grace period of these gateways."""
GRACE_S = "0.2"


@pytest.fixture
def engine() -> Iterator[Stub]:
    with stub() as running:
        running.behave(mode="ok", step_ms=STEP_MS)
        yield running


class Site:
    def __init__(self, home: Home, listener: socket.socket) -> None:
        self.home, self.listener, self.wanted, self.said = home, listener, 1, list[str]()
        self.parts = PlatformParts(database=cast("Database", None))
        self.hand = LocalGateways(self.parts, self._made, lambda: self.wanted, self.said.append, look_s=0.1)

    def _made(self, number: int) -> Supervisor:
        command = Command(
            name=f"gateway {number}",
            argv=(sys.executable, "-m", "penstock.cli", "gateway", "--fd", str(self.listener.fileno())),
            log=self.home.root / f"gateway-{number}.log",
            environment={**self.home.environment, "PENSTOCK_DRAIN_GRACE_S": GRACE_S},
            fds=(self.listener.fileno(),),
        )
        ready = partial(has_ready_file, self.home.root / "run")
        return Supervisor(
            ChildSpec(
                command=lambda: command, ready=ready, clock=SystemClock(), report=self.said.append, ready_within_s=60.0
            )
        )

    @property
    def serving(self) -> int:
        return len(list((self.home.root / "run/gateway").glob("*.ready")))

    @property
    def running(self) -> int:
        return sum(one.pid > 0 for one in self.parts.gateways)

    def http(self) -> httpx.AsyncClient:
        url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        return httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {self.home.key}"}, timeout=60, trust_env=False
        )


async def until(check: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(patient(60)):
            while not check():  # noqa: ASYNC110  another process's state has no event
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise AssertionError(what) from error


@pytest.fixture
async def site(tmp_path: Path, engine: Stub) -> AsyncIterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    listener.set_inheritable(True)
    made = Site(prepare(tmp_path, engine.url), listener)
    keeping = asyncio.create_task(made.hand.keep())
    try:
        yield made
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await asyncio.gather(*(one.stop(5.0) for one in made.parts.gateways if one.pid))
        listener.close()


async def stream(site: Site, begun: list[str]) -> tuple[str, int]:
    """Return the last line of a stream on a connection of its own, and its tokens."""
    body = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": TOKENS, "stream": True}
    lines = list[str]()
    async with site.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == httpx.codes.OK
        begun.append("one")
        async for line in answer.aiter_lines():
            lines += [line] if line.startswith("data: ") else []
    return lines[-1], len(lines)


async def test_more_and_fewer_gateways_break_no_stream(site: Site) -> None:
    """One becomes three; of three two go in the middle of streams that outlast any grace, and all streams are whole."""
    await until(lambda: site.serving == 1, "the first one serves")
    site.wanted = 3
    await until(lambda: site.serving == 3, "two more serve")
    begun = list[str]()
    streams = [asyncio.create_task(stream(site, begun)) for _ in range(24)]
    await until(lambda: len(begun) == len(streams), "all streams run")
    site.wanted = 1
    await until(lambda: len([one for one in site.said if "takes no more" in one]) == 2, "two were told to go")
    statuses = list[int]()
    while not all(one.done() for one in streams):
        async with site.http() as http:
            statuses.append((await http.get("/v1/models")).status_code)
        await asyncio.sleep(0.1)
    assert {one.result()[0] for one in streams} == {"data: [DONE]"}
    assert len({one.result()[1] for one in streams}) == 1
    assert set(statuses) == {httpx.codes.OK}
    await until(lambda: site.running == 1, "two have ended")
    assert site.serving == 1
    site.wanted = cast("int", None)
    await asyncio.sleep(0.5)
    assert (site.running, len(site.parts.gateways)) == (1, 1)


async def test_the_platforms_end_bounds_a_gateway_that_drains(site: Site) -> None:
    """SIGTERM after the order to drain begins the grace period: a platform that ends waits for no long answer."""
    site.wanted = 2
    await until(lambda: site.serving == 2, "both serve")
    begun = list[str]()
    streams = [asyncio.create_task(stream(site, begun)) for _ in range(8)]
    await until(lambda: len(begun) == len(streams), "all streams run")
    site.wanted = 1
    await until(lambda: any("takes no more" in one for one in site.said), "one was told to go")
    going = site.parts.gateways[-1]
    loop = asyncio.get_running_loop()
    began = loop.time()
    await going.stop(30.0)
    assert going.child.code == 0
    assert loop.time() - began < patient(TOKENS * STEP_MS / 2e3)
    await asyncio.gather(*streams, return_exceptions=True)
