"""How an engine's core ended: said in the engine's log, read there by its agent; its server ends with it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.worker.agent.log_tail import LogTail
from penstock.worker.engines import core_end


@dataclass
class Cores:
    """Stands for what vLLM's server keeps of its core's processes."""

    codes: dict[str, int] = field(default_factory=dict)
    failed_proc_name: str | None = None

    def finished_procs(self) -> dict[str, int]:
        return self.codes

    def monitor_engine_liveness(self) -> None:
        """Return when one of them has ended."""


@pytest.mark.parametrize(
    ("cores", "code"),
    [(Cores({"core-0": -9, "core-1": -15}, "core-0"), -9), (Cores({"core-0": -15}), None), (Cores({}, "core-0"), None)],
    ids=["killed", "asked to end", "nobody knows"],
)
def test_the_server_of_a_killed_core_says_its_code_and_ends_at_once(
    cores: Cores,
    code: int | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that shuts down in order waits for requests that hang, and ends with code 0: all seemed well."""
    log, exits = tmp_path / "engine.log", list[int]()
    tail = LogTail(log)
    monkeypatch.setattr(os, "_exit", exits.append)
    core_end.saying(Cores.monitor_engine_liveness)(cores)
    log.write_text("".join(f"{line}\n" for line in ("before", *caplog.messages, "after")))
    assert tail.core_code() == code
    assert exits == ([] if code is None else [core_end.EXIT_WITHOUT_CORE])


def test_a_caller_can_not_say_it(tmp_path: Path) -> None:
    """A line that quotes it is not one that says it."""
    log = tmp_path / "engine.log"
    tail = LogTail(log)
    log.write_text("INFO: POST /engine core ended with code -9\n")
    assert tail.core_code() is None
