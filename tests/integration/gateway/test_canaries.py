"""Nothing that a caller writes stands in any sink of a gateway: files, metrics, traces, errors, arguments."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.domain.tenancy.tenant import Plan
from tests.support.clients import canaries
from tests.support.gateways.process import prepare, started
from tests.support.monitoring.otlp import collector
from tests.support.patience import until

pytestmark = pytest.mark.integration


@pytest.fixture
def engine() -> Iterator[str]:
    """Yield the address of a stub engine."""
    command = [sys.executable, "-m", "tests.support.engines.stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


def test_a_canary_is_found_wherever_it_is_planted(tmp_path: Path) -> None:
    """The search finds a secret in a file below a folder, and tells its place and its surroundings."""
    (tmp_path / "records").mkdir()
    (tmp_path / "records/one.jsonl").write_text(f"before {canaries.CANARIES['tool']} after")
    (found,) = canaries.found_in(canaries.files_below(tmp_path))
    assert found.startswith("records/one.jsonl: b'before ")


def test_no_canary_is_in_any_sink(tmp_path: Path, engine: str) -> None:
    """Answered, refused and broken requests leave no word of prompt, header, key, tool, argument or file name."""
    home = prepare(tmp_path, engine, Plan(requests_per_min=40))
    with (
        collector() as receiver,
        started(home, PENSTOCK_OTLP_ENDPOINT=receiver.url, PENSTOCK_TRACE_RATIO="1") as gateway,
    ):
        with gateway.http() as client:
            answers = canaries.ask_in_every_way(client, "toy")
            told = [client.get(f"/v1/requests/{answer.headers['x-request-id']}") for answer in answers]
        sinks = {f"explained {n}": answer.content for n, answer in enumerate(told)}
        sinks |= {f"error {n} ({one.status_code})": one.content for n, one in enumerate(answers) if one.is_error}
        sinks |= canaries.arguments_of([gateway.process.pid])
        for accept in ("text/plain", "application/openmetrics-text"):
            sinks[accept] = httpx.get(gateway.metrics_url, headers={"accept": accept}, trust_env=False).content
        gateway.signal()
        gateway.process.wait(20)
        until("its spans have come", lambda: "request" in receiver.spans(), within_s=5)
        sinks |= {f"spans {n}": raw for n, raw in enumerate(receiver.raw)}
    sinks |= canaries.files_below(tmp_path)
    assert sum(answer.is_success for answer in answers) >= 2
    assert len({answer.status_code for answer in answers}) >= 4
    assert sum(answer.is_success for answer in told) >= 6
    assert {name.partition("/")[0] for name in sinks} >= {"records", "run", f"gateway-{gateway.process.pid}.log"}
    assert canaries.found_in(sinks) == []
    assert canaries.found_in(sinks, [home.key]) == []
