"""The costliest bodies, sent to a real gateway: other callers do not feel them (C10, C12, A5)."""

import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.domain.errors import PenstockError
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.openai.parse import parse
from penstock.gateway.openai.reading import INLINE_BYTES, is_small
from tests.support.gateways.process import GatewayProcess, prepare, started
from tests.support.patience import patient, until

Body = tuple[Api, bytes]

_SAID = b'{"model":"toy","max_tokens":1,"messages":[{"role":"user","content":%b}]}'
_MANY = b'{"model":"toy","max_tokens":1,"messages":[%b]}'
_ASKED = b'{"model":"toy","max_tokens":1,"messages":[{"role":"user","content":"x"}],%b}'
_TOOL = b'{"type":"function","function":{"name":"f"}}'
_PROMPT = b'{"model":"toy","max_tokens":1,"prompt":%b}'


def _repeated(piece: bytes, size: int) -> bytes:
    return b",".join([piece] * (size // (len(piece) + 1)))


def _named(value: bytes, size: int) -> bytes:
    return b",".join(b'"k%06x":%b' % (i, value) for i in range(size // (len(value) + 12)))


def _chat(form: bytes, make: Callable[[int], bytes]) -> Callable[[int], Body]:
    return lambda size: (Api.CHAT, form % make(size - len(form)))


def _completion(make: Callable[[int], bytes]) -> Callable[[int], Body]:
    return lambda size: (Api.COMPLETIONS, _PROMPT % make(size - len(_PROMPT)))


WORST: dict[str, Callable[[int], Body]] = {
    "a text": _chat(_SAID, lambda size: b'"' + b"a b " * (size // 4) + b'"'),
    "a text without spaces": _chat(_SAID, lambda size: b'"' + b"a" * size + b'"'),
    "an escaped text": _chat(_SAID, lambda size: b'"' + b"\\u4e2d" * (size // 6) + b'"'),
    "parts that are texts": _chat(_SAID, lambda size: b"[" + _repeated(b'"x"', size) + b"]"),
    "parts that are objects": _chat(_SAID, lambda size: b"[" + _repeated(b'{"type":"text","text":"x"}', size) + b"]"),
    "empty parts": _chat(_SAID, lambda size: b"[" + _repeated(b"[]", size) + b"]"),
    "messages": _chat(
        _MANY, lambda size: _repeated(b'{"role":"user","content":"' + b"x" * (size // 4200) + b'"}', size)
    ),
    "small messages": _chat(_MANY, lambda size: _repeated(b'{"role":"u"}', min(size, 12 * 4000))),
    "tools": _chat(
        _ASKED, lambda size: b'"tools":[' + _repeated(b'{"type":"function","function":{"name":"f"}}', size) + b"]"
    ),
    "template arguments": _chat(_ASKED, lambda size: b'"chat_template_kwargs":{' + _named(b"1", size) + b"}"),
    "fields": _chat(_ASKED, lambda size: _named(b"1", size)),
    "nesting": _chat(_ASKED, lambda size: b'"x":' + b"[" * (size // 2) + b"]" * (size // 2)),
    "shallow nesting": _chat(_ASKED, lambda size: b'"x":[' + _repeated(b"[" * 60 + b"]" * 60, size) + b"]"),
    "properties": _chat(
        _ASKED,
        lambda size: (
            b'"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{'
            + _named(b'{"type":"string"}', size)
            + b"}}}}"
        ),
    ),
    "something unknown": _chat(_ASKED, lambda size: b'"x":[' + _repeated(b"{}", size) + b"]"),
    "token ids": _completion(lambda size: b"[" + _repeated(b"1", size) + b"]"),
    "prompts": _completion(lambda size: b"[" + _repeated(b'"x"', size) + b"]"),
    "prompts of ids": _completion(lambda size: b"[" + _repeated(b"[" + _repeated(b"1", 900) + b"]", size) + b"]"),
}


pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CONTEXT = 131_072
BODY_BYTES = 2 << 20
SMALL = b'{"model":"toy","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
SENDERS = 4
LOAD_S = 2.0
MOST = 3
"""A body may hold the loop for so many times what the costliest small body, or a load of small ones, does."""

MOST_WAIT = 10
"""The same of a neighbour's wait, which has the senders' own work in it: they share a process with who measures."""


OFTEN = ("a text", "parts that are objects", "token ids")
"""The bodies that are sent at each run: text, many objects, many numbers. ``make drills`` sends them all."""


@dataclass(frozen=True)
class Felt:
    """What a neighbour felt, in seconds, and how long the loop computed at a stretch."""

    median_s: float
    stall_s: float
    statuses: frozenset[int]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Yield the address of a stub engine that answers at once."""
    command = [sys.executable, "-m", "tests.support.engines.stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


@pytest.fixture(scope="module", params=[0, 1], ids=["without limits", "over its limit"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: str
) -> Iterator[GatewayProcess]:
    """Yield a gateway with a caller without limit, or one over its limit from its second request on."""
    home = prepare(tmp_path_factory.mktemp("home"), engine, Plan(requests_per_min=request.param), context=CONTEXT)
    with started(home, program="tests.support.gateways.watched") as running:
        ask(running, running.home.key, "POST", Api.CHAT, SMALL)
        felt(running, Api.CHAT, SMALL)  # children start, code is met the first time
        yield running


def ask(gateway: GatewayProcess, key: str, method: str, path: str, body: bytes | None = None) -> int:
    """Send one request; 0 if the connection was cut during the upload."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        answer.read()
    except ConnectionError:
        return 0
    finally:
        connection.close()
    return answer.status


def stall_s(gateway: GatewayProcess) -> float:
    """Return the most that the process computed between two turns of its loop, since the call before."""
    told = gateway.home.root / "stalls.json"
    told.unlink(missing_ok=True)
    os.kill(gateway.process.pid, signal.SIGUSR1)
    until("it told", told.exists)
    return float(json.loads(told.read_text())["cpu_s"])


def felt(gateway: GatewayProcess, path: str, body: bytes) -> Felt:
    """Send this body again and again, and meanwhile a small request of another caller."""
    ends_at, statuses, waits = time.monotonic() + LOAD_S, set(), []

    def send() -> None:
        while time.monotonic() < ends_at:
            statuses.add(ask(gateway, gateway.home.key, "POST", path, body))

    senders = [threading.Thread(target=send) for _ in range(SENDERS)]
    stall_s(gateway)
    for sender in senders:
        sender.start()
    while any(sender.is_alive() for sender in senders):
        begun = time.monotonic()
        assert ask(gateway, gateway.home.neighbour, "GET", "/v1/models") == 200
        waits.append(time.monotonic() - begun)
    return Felt(statistics.median(waits), stall_s(gateway), frozenset(statuses))


def costliest_small_s() -> float:
    """Return the CPU that the worst of the bodies takes which are read on the event loop."""
    costs = []
    for make in WORST.values():
        api, body = make(INLINE_BYTES)
        if is_small(body):
            begun = time.process_time()
            with contextlib.suppress(PenstockError):
                parse(api, body)
            costs.append(time.process_time() - begun)
    return max(costs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.drill) for name in WORST]
)
def test_no_body_holds_up_anybody_else(gateway: GatewayProcess, name: str) -> None:
    """Finding 6: a body that costs seconds to read leaves the loop, and a neighbour's requests, as they are."""
    control = felt(gateway, Api.CHAT, SMALL)
    assert control.stall_s > 0.0, "the loop is watched"
    path, body = WORST[name](BODY_BYTES)
    most_s = MOST * max(control.stall_s, costliest_small_s())
    under = felt(gateway, path, body)
    if under.stall_s > most_s:  # on a shared machine caches are cold by chance; what holds the loop does it each time
        under = felt(gateway, path, body)
    assert not under.statuses & {500, 502}
    assert under.stall_s <= most_s
    assert under.median_s <= patient(MOST_WAIT * max(control.median_s, costliest_small_s()))


def test_a_body_beyond_the_largest_context_is_told_so(gateway: GatewayProcess) -> None:
    """The bound follows from the model: 131,072 tokens of 16 bytes."""
    assert ask(gateway, gateway.home.key, "POST", Api.CHAT, b" " * (BODY_BYTES + 1)) == 413


def test_children_end_with_their_gateway(tmp_path: Path, engine: str) -> None:
    """A gateway that is killed leaves no process behind."""
    with started(prepare(tmp_path, engine, context=CONTEXT)) as running:
        large = json.dumps({"model": "toy", "messages": [{"role": "user", "content": "hi " * 9000}], "max_tokens": 1})
        assert ask(running, running.home.key, "POST", Api.CHAT, large.encode()) == 200
        listed = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        assert listed
    until("no child is left", lambda: not any(Path(f"/proc/{child}/stat").exists() for child in listed))
