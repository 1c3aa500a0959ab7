"""What the requests of a gate add up to."""

import pytest

from penstock.domain.ids import VersionId, WorkerId
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.tally import Tally
from penstock.worker.gate_config import GateConfig

CONFIG = GateConfig(worker=WorkerId("w"), version=VersionId("toy@1"), ticket_key="00", max_num_seqs=4)


def test_further_metrics_of_the_process_stand_beside_the_gates() -> None:
    """What else counts in the engine's process is on the one page that the agent reads."""
    queue = AdmissionQueue(EngineSize(max_seqs=4, kv_blocks=10, block_size=16))
    tally = Tally(CONFIG, queue, lambda: 0.0)
    tally.beside.append(lambda: b"penstock_batches_total 3.0\n")
    told = tally.exposition().decode()
    assert "penstock_door_saturation" in told
    assert told.endswith("penstock_batches_total 3.0\n")


def test_a_gate_tells_a_lower_pace_for_late_first_tokens() -> None:
    """The queue's own pace is the engine's throughput, and stays."""
    queue = AdmissionQueue(EngineSize(max_seqs=4, kv_blocks=10, block_size=16))
    tally = Tally(CONFIG, queue, lambda: 0.0)
    pace = tally.load.pace_per_s
    for _ in range(100):
        tally.judged(0.1, 0.6)
    assert tally.load.pace_per_s == pytest.approx(pace / 6, rel=0.1)
    assert queue.forecast.pace.per_s == pace
