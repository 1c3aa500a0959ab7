"""A gateway, a worker's gate and a controller with certificates, and attackers with others."""

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import worker_secret
from penstock.tls.authority import KeyPair
from penstock.tls.identity import Role
from penstock.worker.engines import plan
from penstock.worker.engines.plan import Certificate, LaunchPlan
from penstock.worker.gate_config import GateConfig
from tests.support.gateways import process as gateway_process
from tests.support.gateways.process import GatewayProcess
from tests.support.patience import patient
from tests.support.tls.certificates import Issuer, variables
from tests.support.tree import ROOT

WORKER = WorkerId("w-stub")
WITHIN_S = 15.0


@dataclass
class GateProcess:
    process: "subprocess.Popen[str]"
    port: int
    logged: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.logged.read_text()

    def until_said(self, word: str, times: int = 1) -> None:
        """Wait until its log has a word so often."""
        until = time.monotonic() + patient(WITHIN_S)
        while self.log.count(word) < times:
            assert time.monotonic() < until, self.log
            time.sleep(0.02)


@contextmanager
def gate(folder: Path, issuer: Issuer, platform_key: bytes) -> Iterator[GateProcess]:
    """Run a gate with the worker's certificate."""
    files = issuer.mounted(Role.WORKER)
    own = Certificate(certificate=str(files.certificate), key=str(files.key), authorities=str(files.authorities))
    config = GateConfig(
        worker=WORKER,
        version=VersionId("m@0123456789ab"),
        ticket_key=worker_secret(platform_key, WORKER).hex(),
        max_num_seqs=8,
    )
    file, log = folder / "gate.plan", folder / "gate.log"
    plan.write(LaunchPlan(argv=(), environment=(), gate=config, tls=own), file)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.workers.gate_process", str(file)],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            cwd=ROOT,
        )
    try:
        assert process.stdout is not None
        yield GateProcess(process, int(process.stdout.readline() or 0), log)
    finally:
        process.kill()
        process.communicate()


@dataclass
class Site:
    """The running processes, and the issuer of their certificates."""

    issuer: Issuer
    gate: GateProcess
    gateway: GatewayProcess

    def stream(self, tokens: int) -> Iterator[str]:
        """Yield the lines of a chat's stream through the gateway."""
        body = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": tokens}
        with self.gateway.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            yield from (line for line in answer.iter_lines() if line.startswith("data: "))

    def answers(self, tokens: int = 2) -> str:
        """Ask, and return the text that came."""
        events = [json.loads(line[6:]) for line in self.stream(tokens) if line != "data: [DONE]"]
        return "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """Run a gate and a gateway that knows it."""
    issuer = Issuer(folder / "certificates")
    with ExitStack() as stack:
        gated = stack.enter_context(gate(folder, issuer, gateway_process.PLATFORM_KEY))
        home = gateway_process.prepare(folder / "home", gated.url)
        told = variables(issuer.mounted(Role.GATEWAY))
        yield Site(issuer, gated, stack.enter_context(gateway_process.started(home, None, **told)))


def attacker(issuer: Issuer, name: str, pair: KeyPair | None = None, *, role: Role = Role.GATEWAY) -> ssl.SSLContext:
    """Return Python's own TLS with this certificate, that believes whatever a listener shows."""
    files = issuer.mounted(role, pair, at=name)
    context = anybody()
    context.load_cert_chain(files.certificate, files.key)
    return context


def anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def get(url: str, context: ssl.SSLContext) -> httpx.Response:
    """Ask once, on a connection of its own."""
    return httpx.get(url, verify=context, trust_env=False, timeout=10)


def shown(port: int) -> str:
    """Return the certificate that a new connection meets."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        anybody().wrap_socket(plain) as secure,
    ):
        return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"")


def operator(home: Path) -> ssl.SSLContext:
    """Return TLS with a certificate of this home."""
    context = anybody()
    context.load_cert_chain(home / "tls/operator.pem", home / "tls/operator.key")
    return context
