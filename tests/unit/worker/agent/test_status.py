"""What a worker's page says of the worker itself."""

from penstock.domain.ids import VersionId, WorkerId
from penstock.worker.agent.status import WorkerMetrics


def test_a_page_says_which_worker_it_is_of() -> None:
    """The page names worker, version and zone, so that its other figures can be told by any of them."""
    told = WorkerMetrics(VersionId("m@1"), WorkerId("m-1"), "z1").metrics.exposition().decode()
    assert 'penstock_worker_info{version="m@1",worker="m-1",zone="z1"} 1.0' in told
