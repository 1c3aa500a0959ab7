"""What the requests of a gate add up to."""

from penstock.domain.ids import VersionId, WorkerId
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.tally import Tally
from penstock.worker.gate_config import GateConfig

CONFIG = GateConfig(worker=WorkerId("w"), version=VersionId("toy@1"), ticket_key="00", max_num_seqs=4)


def test_further_metrics_of_the_process_stand_beside_the_gates() -> None:
    """What else counts in the engine's process is on the one page that the agent reads."""
    queue = AdmissionQueue(EngineSize(max_seqs=4, kv_blocks=10, block_size=16))
    tally = Tally(CONFIG, queue)
    tally.beside.append(lambda: b"penstock_batches_total 3.0\n")
    told = tally.exposition().decode()
    assert "penstock_door_saturation" in told
    assert told.endswith("penstock_batches_total 3.0\n")
