"""No ledger row is lost or doubled: not with a killed process, a dead database or a full disk."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.connectors.spool.segment import Closed, lines
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outage import LONGEST_WAIT_S, SHORTEST_WAIT_S
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tenancy.tenant import Priority
from penstock.domain.tokens import Usage
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Intervention
from tests.support.clock import ManualClock

PRICE = Price(prompt_per_mtok=MicroUsd(100_000), cached_per_mtok=MicroUsd(50_000), output_per_mtok=MicroUsd(200_000))


class Sink:
    """A ledger in memory that keeps one row per request and can be out of reach."""

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: dict[RequestId, LedgerRow] = {}
        self.is_down = False
        self.refuses: frozenset[str] = frozenset()

    async def append(self, rows: Sequence[LedgerRow]) -> None:
        """Store rows, or fail after having stored a part, as a lost connection may; refuse all for one."""
        if not self.refuses.isdisjoint(row.request for row in rows):
            raise Conflict("the database refused this: ledger_check")
        for i, row in enumerate(rows):
            if self.is_down and i >= len(rows) // 2:
                raise StoreUnavailable
            self.rows.setdefault(row.request, row)

    async def record(self, interventions: Sequence[Intervention]) -> None:
        """Refuse all: no test of rows writes any."""
        assert not interventions

    async def keep(self, texts: Sequence[SealedText]) -> None:
        assert not texts


def opening(name: str, prompt: int = 10) -> Opening:
    return Opening(
        request=RequestId(name),
        tenant=TenantId("t"),
        key=KeyId("k"),
        version=VersionId("m@1"),
        digest="d",
        api="/v1/chat/completions",
        priority=Priority.STANDARD,
        prompt_tokens=prompt,
        price=PRICE,
        opened_at=1.0,
    )


def row(start: Opening, output: int = 5) -> LedgerRow:
    usage = Usage(prompt_tokens=start.prompt_tokens, output_tokens=output)
    return close(start, Outcome.OK, usage, gpu_s=0.1, now=2.0)


def test_every_request_has_one_row_whatever_the_order_of_deliveries(tmp_path: Path) -> None:
    """Openings, closings and failing deliveries in any order end in exactly one true row per request."""
    chance, spool, sink = random.Random(3), Spool(tmp_path, SystemClock()), Sink()
    living: list[Opening] = []
    for i in range(400):
        living.append(opening(f"r{i}"))
        spool.opened(living[-1])
        while living and chance.random() < 0.6:
            spool.closed(row(living.pop(chance.randrange(len(living)))))
        if i % 20 == 0:
            sink.is_down = chance.random() < 0.5
            try:
                asyncio.run(spool.deliver(sink))
            except StoreUnavailable:
                assert sink.is_down
    for start in living:
        spool.closed(row(start))
    sink.is_down = False
    asyncio.run(spool.deliver(sink))
    assert len(sink.rows) == 400
    assert {r.outcome for r in sink.rows.values()} == {Outcome.OK}


def test_the_disk_is_waited_for_in_a_thread_and_no_file_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk never holds up the event loop: both segments are synced elsewhere, and the sealed one is closed."""
    spool, sink, synced = Spool(tmp_path, SystemClock()), Sink(), list[int]()
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(threading.get_ident()))
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for i in range(5):
        spool.opened(opening(f"r{i}"))
        spool.closed(row(opening(f"r{i}")))
        spool.flush()
        asyncio.run(spool.deliver(sink))
    assert len(synced) == 10
    assert threading.get_ident() not in synced
    assert (len(sink.rows), sum(1 for _ in Path("/proc/self/fd").iterdir())) == (5, before)


CHILD = """
import asyncio, sys, time
from pathlib import Path
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.ids import RequestId
sys.path.insert(0, {tests!r})
from test_spool import Sink, opening, row
spool = Spool(Path({folder!r}), SystemClock())
half = opening("half", prompt=1_000_000)
spool.opened(half)
spool.delivered(RequestId("half"), 7)
spool.opened(opening("unheard"))
spool.opened(opening("young"))
spool.flush()
asyncio.run(spool.deliver(Sink()))
late = opening("late")
spool.opened(late); spool.closed(row(late))
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_process_leaves_true_rows_behind(tmp_path: Path) -> None:
    """After kill -9 the next process bills what was open by what it had passed on, also of rounds before the last."""
    code = CHILD.format(folder=str(tmp_path), tests=str(Path(__file__).parent))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    heir, sink, inherited = Spool(tmp_path, SystemClock()), Sink(), list[str]()

    async def inherit(rows: Sequence[LedgerRow]) -> None:
        assert sink.rows == {}, "leases are settled before their rows can be counted"
        inherited.extend(row.request for row in rows)

    async def took(left: Iterable[Opening]) -> dict[RequestId, Usage]:
        assert {one.request for one in left} == {"half", "unheard", "young"}
        return {RequestId("young"): Usage(prompt_tokens=5, output_tokens=19)}

    asyncio.run(heir.deliver(sink, inherit, took))
    assert (sink.rows, inherited) == ({}, []), "a living process's segments are its own"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    asyncio.run(heir.deliver(sink, inherit, took))
    assert set(inherited) == {"half", "unheard", "young", "late"}
    young = sink.rows[RequestId("young")]
    assert (young.prompt_tokens, young.output_tokens, young.exact) == (5, 19, True), "its worker still knew (finding 4)"
    assert sink.rows[RequestId("late")].outcome is Outcome.OK
    half = sink.rows[RequestId("half")]
    assert (half.outcome, half.output_tokens, half.exact) == (Outcome.INTERNAL, 7, False)
    assert half.cost == 100_000 + 2
    assert min(young.gpu_s, half.gpu_s) > 0.0, "both used an engine"
    unheard = sink.rows[RequestId("unheard")]
    assert (unheard.outcome, unheard.cost, unheard.gpu_s) == (Outcome.INTERNAL, 0, 0.0)
    assert [p for p in tmp_path.iterdir() if str(child.pid) in p.name] == []


def filled(folder: Path, told: list[str]) -> Spool:
    """Return a spool with thirty ended requests; what the ledger refuses is told."""
    spool = Spool(folder, SystemClock(), lambda row, why: told.append(f"{row.request}: {why}"))
    for i in range(30):
        spool.opened(opening(f"r{i}"))
        spool.closed(row(opening(f"r{i}")))
    return spool


def asides(folder: Path) -> list[str]:
    """Return the rows that are set aside."""
    return [one.row.request for path in folder.glob("*.refused") for one in lines(path) if isinstance(one, Closed)]


def test_a_row_that_the_ledger_refuses_holds_nobody_up(tmp_path: Path) -> None:
    """The rows before and behind it are delivered, it is told and set aside, and the next rounds are as ever."""
    sink, told = Sink(), list[str]()
    spool = filled(tmp_path, told)
    sink.refuses = frozenset({"r7", "r23"})
    asyncio.run(spool.deliver(sink))
    assert set(sink.rows) == {f"r{i}" for i in range(30)} - sink.refuses
    assert told == ["r7: the database refused this: ledger_check", "r23: the database refused this: ledger_check"]
    assert asides(tmp_path) == ["r7", "r23"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.refused")} == {0o600}
    asyncio.run(spool.deliver(sink))
    assert len(told) == 2
    assert list(tmp_path.glob("*.jsonl")) == [max(tmp_path.glob("*.jsonl"))]


def test_what_was_refused_is_offered_again_by_the_next_process(tmp_path: Path) -> None:
    """A release that mends the fault delivers the rows; one that does not keeps them; who lives keeps its own."""
    sink, told = Sink(), list[str]()
    sink.refuses = frozenset({"r7"})
    first = filled(tmp_path, told)
    asyncio.run(first.deliver(sink))
    beside = Spool(tmp_path, SystemClock())
    assert asides(tmp_path) == ["r7"], "its owner lives and may be writing"
    for living in (first, beside):
        os.close(living._lock)
    second = Spool(tmp_path, SystemClock())
    asyncio.run(second.deliver(sink))
    assert asides(tmp_path) == ["r7"]
    os.close(second._lock)
    sink.refuses = frozenset()
    asyncio.run(Spool(tmp_path, SystemClock()).deliver(sink))
    assert len(sink.rows) == 30
    assert asides(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as out:
            while True:
                out.write(b"x" * 1024)
    except OSError:
        return


def test_a_full_disk_refuses_new_work_and_loses_no_row(small_disk: Path, clock: ManualClock) -> None:
    """Requests are refused loudly, with a wait that grows, while the disk is full; rows of those that ran wait."""
    spool, sink = Spool(small_disk, clock), Sink()
    running = [opening(f"r{i}") for i in range(20)]
    for start in running:
        spool.opened(start)
    filler = small_disk / "filler"
    fill(filler)
    for start in running:
        spool.closed(row(start))
    was_full = spool.is_full
    with pytest.raises(StoreUnavailable, match="its disk is full") as refused:
        spool.opened(opening("refused"))
    assert refused.value.retry_after_s == SHORTEST_WAIT_S
    clock.advance(7.0)
    with pytest.raises(StoreUnavailable) as refused:
        spool.opened(opening("refused later"))
    assert refused.value.retry_after_s == 7.0
    clock.advance(1e6)
    with pytest.raises(StoreUnavailable) as refused:
        spool.opened(opening("refused much later"))
    assert refused.value.retry_after_s == LONGEST_WAIT_S
    filler.unlink()
    spool.flush()
    assert (was_full, spool.is_full) == (True, False)
    asyncio.run(spool.deliver(sink))
    assert len(sink.rows) == 20


def test_a_disk_with_room_again_is_found_without_a_request(small_disk: Path, clock: ManualClock) -> None:
    """A gateway that only refused has nothing to write; its disk is tried all the same, and its metric falls."""
    spool = Spool(small_disk, clock)
    filler = small_disk / "filler"
    fill(filler)
    with suppress(StoreUnavailable):
        for number in range(100):
            spool.opened(opening(f"r{number}"))
    spool.flush()
    assert (spool.is_full, spool.used_ratio()) == (True, 1.0)
    filler.unlink()
    spool.flush()
    assert not spool.is_full
    assert 0.0 < spool.used_ratio() < 1.0
