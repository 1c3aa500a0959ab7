"""Each process of `penstock up` that stops answering is found, ended and started again, and it is told."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.drill, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def watched(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield an observed platform with MiniLM, free to be stopped."""
    own = {"observe": "true", "zygote_socket": ""}
    with Platform(home=new_home("hangs"), models="minilm", settings={**shared_settings, **own}) as running:
        yield running


def state(platform: Platform) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((platform.home / "run/up.json").read_text())
    return found


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.parametrize(
    "name", ["postgres", "controller", "gateway 1", "engines' parent", "prometheus", "alertmanager"]
)
def test_a_process_that_does_not_answer_is_started_again(watched: Platform, name: str, sent: signal.Signals) -> None:
    """Stopped or killed, another process takes its place; log, state and `penstock status` say which and why."""
    now = state(watched)
    pid, before = now["processes"][name], now["restarts"].get(name, {}).get("count", 0)
    for one in family(pid) if name == "postgres" else [pid]:
        os.kill(one, sent)
    until("another runs", lambda: state(watched)["processes"][name] not in (0, pid), within_s=60)
    told = state(watched)["restarts"][name]
    assert told["count"] == before + 1
    cause = "hung" if sent is signal.SIGSTOP else "died"
    lines = [json.loads(line) for line in (watched.home / "logs/supervisor.log").read_text().splitlines()]
    assert [(one["object"], one["reason"]) for one in lines if one["event"] == "process_restarted"][-1] == (name, cause)
    until("operators are served", lambda: watched.run("status", check=False).returncode == 0, within_s=20)
    assert told["why"][:12] in watched.run("status").stdout
