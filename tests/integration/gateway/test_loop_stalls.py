"""The largest body of every route, sent to a real gateway: none holds its event loop for more than 5 ms (C12)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import httpx
import pytest

from loadtests import rpc_client
from penstock.domain.serving.request import JSON_APIS
from penstock.gateway.app.openapi import document
from penstock.gateway.openai.parse import COUNTS
from penstock.gateway.openai.reading import INLINE_BYTES
from penstock.intake.limits import QUESTION_BYTES
from tests.support.gateways.process import GatewayProcess, prepare, started
from tests.support.patience import patient, until
from tests.support.samples.least_bodies import BODIES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

LONGEST_S = 0.005
TRIES = 5
"""Caches are cold by chance on a shared machine: what holds the loop does it each time."""
CONTEXT = 131_072
SIZES = (INLINE_BYTES, 128 << 10, 2 << 20)
"""Of texts: what is read on the loop; what is read elsewhere and served; what a model of that context may be sent."""
MARGIN_BYTES = 1 << 10
INFERENCE = {**{str(api): api for api in JSON_APIS}, **COUNTS}
GRPC = "ModelInfer over gRPC"


def bodies(method: str, path: str) -> Iterator[bytes]:
    """Yield the largest bodies of a route: what is read on the loop, and what is read elsewhere."""
    if method == "GET":
        yield b""
    elif (api := INFERENCE.get(path)) is not None:
        for size in SIZES:
            yield _grown({"model": "toy", "max_tokens": 1, **BODIES[api]}, size)
    elif path.endswith("/infer"):
        for size in SIZES:
            tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [_text(size)]}
            yield json.dumps({"inputs": [tensor]}).encode()
            yield json.dumps({"inputs": [{**tensor, "shape": [size // 4], "data": ["a"] * (size // 8)}]}).encode()
    else:
        yield b'{"ready":' + b"[" * 50 + b"]" * 50 + b',"x":[' + b"1," * ((QUESTION_BYTES - MARGIN_BYTES) // 2) + b"1]}"


def _text(size: int) -> str:
    return "a b " * ((size - MARGIN_BYTES) // 4)


def _grown(body: dict[str, Any], size: int) -> bytes:
    """Return the body as JSON with a text of about this size for its "hi"."""
    return json.dumps(body).replace('"hi"', f'"{_text(size)}"').encode()


PATHS = cast("dict[str, dict[str, Any]]", document()["paths"])
ROUTES = [(method.upper(), path) for path in PATHS for method in sorted(PATHS[path].keys() & {"get", "post"})]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Yield a gateway with a model of a large context, before a stub engine."""
    command = [sys.executable, "-m", "tests.support.engines.stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        home = prepare(tmp_path_factory.mktemp("home"), json.loads(engine.stdout.readline())["url"], context=CONTEXT)
        with started(home, program="tests.support.gateways.watched") as running:
            yield running
        engine.kill()


def stall_s(gateway: GatewayProcess) -> float:
    """Return the most that the loop computed between two looks since the call before."""
    told = gateway.home.root / "stalls.json"
    told.unlink(missing_ok=True)
    os.kill(gateway.process.pid, signal.SIGUSR1)
    until("it told", told.exists, every_s=0.005)
    return float(json.loads(told.read_text())["cpu_s"])


def send(gateway: GatewayProcess, method: str, path: str, body: bytes) -> int:
    headers = {"authorization": f"Bearer {gateway.home.key}", "content-type": "application/json"}
    with httpx.Client(timeout=patient(30)) as http:
        return http.request(method, f"{gateway.url}{path}", content=body, headers=headers).status_code


def rpc(gateway: GatewayProcess, message: bytes) -> grpc.StatusCode:
    address = (Path(gateway.home.root) / "run/gateway.grpc.addr").read_text()
    with grpc.insecure_channel(address) as channel:
        ask: Any = channel.unary_unary(f"{rpc_client.SERVICE}ModelInfer")
        try:
            ask(message, metadata=(("authorization", f"Bearer {gateway.home.key}"),), timeout=patient(30))
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_holds_the_loop(gateway: GatewayProcess, method: str, path: str) -> None:
    """Each route of the OpenAPI document with its largest bodies; none of them is a fault."""
    at = path.replace("{model}", "toy").replace("{request_id}", "req-x").replace("{version}", "1")
    for body in bodies(method, path):
        statuses, stalls = set(), []
        for _ in range(TRIES):
            stall_s(gateway)
            statuses.add(send(gateway, method, at, body))
            stalls.append(stall_s(gateway))
        assert not statuses & {413, 500, 502}, (len(body), statuses)
        assert 0.0 < min(stalls) <= LONGEST_S, (len(body), statuses, stalls)


def test_no_message_of_grpc_holds_the_loop(gateway: GatewayProcess) -> None:
    """The largest text of ``ModelInfer``."""
    for size in SIZES:
        codes, stalls = set(), []
        for _ in range(TRIES):
            stall_s(gateway)
            codes.add(rpc(gateway, rpc_client.request("toy", _text(size), 1)))
            stalls.append(stall_s(gateway))
        assert not codes & {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}, codes
        assert 0.0 < min(stalls) <= LONGEST_S, (size, codes, stalls)
