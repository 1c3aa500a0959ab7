"""What a worker's settings mean for its engine and gate."""

from pathlib import Path

import pytest

from penstock.apps.keys import provide_worker_key
from penstock.apps.worker import Workplace
from penstock.domain.ids import ModelName, VersionId, WorkerId
from penstock.domain.models.model import Manifest, Provenance, Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.settings import Settings
from penstock.supervision.files import write_private
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy
from penstock.worker.engines import plan
from penstock.worker.gate.corridor import Gate

VERSION = VersionId("m@0123456789ab")
FREE = MicroUsd(0)
MANIFEST = Manifest(
    name=ModelName("m"),
    task=Task.GENERATE,
    tier=Tier.CHAT,
    files=(),
    price=Price(prompt_per_mtok=FREE, cached_per_mtok=FREE, output_per_mtok=FREE),
    provenance=Provenance(origin="here", licence="Apache-2.0"),
)


async def no_engine(*_: object) -> None:
    raise AssertionError("nobody asks the engine here")


def test_the_gate_stands_before_a_bounded_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's size reaches the gate through the private plan file; vLLM's own queue is bounded too."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    write_private(tmp_path / "platform.key", "11" * 32)
    provide_worker_key(Settings(), WorkerId("w"), VERSION)
    place = Workplace(Settings(), WorkerId("w"))
    copy = Copy(manifest=MANIFEST, folder=tmp_path, hold=Hold(tmp_path / "use"))
    launch = place._plan(VERSION, place.place(4711), copy)
    copy.hold.release()
    plan.write(launch, tmp_path / "plan")
    gate = Gate(no_engine, plan.read(tmp_path / "plan").gate)
    assert gate.queue.slots.size.max_seqs == MANIFEST.engine.max_num_seqs
    assert "--max-num-queued-reqs" in launch.argv
