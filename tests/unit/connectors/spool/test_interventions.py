"""No intervention is lost or doubled: not with a killed process, a database away, or rows that it refuses."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.connectors.spool.segment import Filtered, lines
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.filters import evidence
from penstock.filters.evidence import MatchText
from penstock.filters.intervention import Intervention
from penstock.sealing.segments import TenantKey
from tests.support.samples.interventions import intervention
from tests.twins.ledger import MemoryLedger


class Flaky(MemoryLedger):
    """It stores half of a batch and is away then, or refuses batches with a request of this name."""

    is_down = False
    refuses = RequestId("")

    async def record(self, interventions: Sequence[Intervention]) -> None:
        if any(one.request == self.refuses for one in interventions):
            raise Conflict("the database refused this: position")
        if self.is_down:
            await super().record(interventions[: len(interventions) // 2])
            raise StoreUnavailable
        await super().record(interventions)


def test_each_is_delivered_once_through_outages(tmp_path: Path) -> None:
    """A delivery that broke off in the middle is repeated, and stores nothing twice."""
    spool, sink = Spool(tmp_path, SystemClock()), Flaky()
    for number in range(1_200):
        spool.filtered(intervention("r1", number))
    sink.is_down = True
    with pytest.raises(StoreUnavailable):
        asyncio.run(spool.deliver(sink))
    sink.is_down = False
    asyncio.run(spool.deliver(sink))
    asyncio.run(spool.deliver(sink))
    assert sorted(sink.interventions) == [("r1", number) for number in range(1_200)]


def test_kept_texts_come_through_the_spool(tmp_path: Path) -> None:
    """Sealed bytes of any value are delivered as they were, once."""
    spool, sink = Spool(tmp_path, SystemClock()), MemoryLedger()
    text = evidence.sealed(intervention("r1", 3), MatchText("a\n\x00ü"), TenantKey(b"i" * 16, b"k" * 32), 60.0)
    spool.filtered(text)
    for _ in range(2):
        asyncio.run(spool.deliver(sink))
    assert sink.texts == [text]


def test_a_refused_one_is_set_aside_and_told(tmp_path: Path) -> None:
    """The others of its batch are stored; it stays in its file for a person."""
    told: list[str] = []
    spool = Spool(tmp_path, SystemClock(), lambda row, why: told.append(f"{row.request}: {why}"))
    sink = Flaky()
    sink.refuses = RequestId("r7")
    for number in range(20):
        spool.filtered(intervention(f"r{number}"))
    asyncio.run(spool.deliver(sink))
    assert told == ["r7: the database refused this: position"]
    assert len(sink.interventions) == 19
    (aside,) = tmp_path.glob("*.refused")
    assert list(lines(aside)) == [Filtered(intervention("r7"))]


CHILD = """
import sys, time
from pathlib import Path
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from tests.support.samples.interventions import intervention
spool = Spool(Path(sys.argv[1]), SystemClock())
for number in range(500):
    spool.filtered(intervention("r1", number))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_process_leaves_all_behind(tmp_path: Path) -> None:
    """After kill -9 the next process of the home delivers them."""
    with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGKILL)
    sink = MemoryLedger()
    asyncio.run(Spool(tmp_path, SystemClock()).deliver(sink))
    assert len(sink.interventions) == 500
