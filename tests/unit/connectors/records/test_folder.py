"""Records on disk: found again after a restart, bounded by bytes and time, and never in a request's way."""

import os
from pathlib import Path

import pytest

from penstock.connectors.records.folder import SEGMENT_S, SWEEP_EVERY_S, FolderBounds, RecordFolder
from penstock.domain.serving.report import Waited
from penstock.domain.serving.request_record import Choice, Considered, Refusal, RequestRecord, Tried
from tests.support.clock import ManualClock

DAY_S = 86_400.0
BOUNDS = FolderBounds(most_bytes=1 << 20, keep_s=7 * DAY_S)


def record(name: str, **more: object) -> RequestRecord:
    plain = RequestRecord(name, "acme", "k", 1.0, "/v1/chat/completions", "ok", 2.0)
    return plain._replace(**more)  # type: ignore[arg-type]


class Site:
    """A folder, and processes that come and go over it."""

    def __init__(self, folder: Path, bounds: FolderBounds = BOUNDS) -> None:
        self.folder, self.bounds, self.clock, self.lost = folder, bounds, ManualClock(), 0

    def process(self) -> RecordFolder:
        self.clock.advance(0.001)
        return RecordFolder(self.folder, self.bounds, self.clock, self.count)

    def count(self, lost: int) -> None:
        self.lost += lost

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.folder.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "records")


async def test_a_record_comes_back_as_it_was(site: Site) -> None:
    """Every noun of a record survives the way to the disk and back."""
    kept = record(
        "req-1",
        refusal=Refusal("overloaded", None, "full", 1.5),
        choices=(Choice("w", 2, 1, 2, (Considered("w", 0.5, 1.0, 2, 0.3, 4.0),)),),
        attempts=(Tried("old", 0.1, "reset", "0.000,0.000,,0,0", "", ""), Tried("w", 0.2, "", Waited(waited_s=0.5))),
        stages_s={"queue": 0.25},
        drawn=(),
    )
    folder = site.process()
    folder.keep(kept)
    assert await folder.find("req-1") == kept


async def test_the_last_attempt_of_a_job_is_found(site: Site) -> None:
    """In the newest file, and there the last; an id that only begins alike is another job's."""
    folder = site.process()
    for name in ("job_ab-1", "job_ab-3", "job_abc-9"):
        folder.keep(record(name))
    found = await folder.last_attempt("job_ab")
    assert found is not None
    assert found[0] == "job_ab-3"
    assert await folder.last_attempt("job_a") is None


async def test_records_survive_a_restart_and_are_shared(site: Site) -> None:
    """A later process of the home finds what an earlier one wrote, and two that live find each other's."""
    first, second = site.process(), site.process()
    first.keep(record("req-1"))
    await first.flush()
    second.keep(record("req-2"))
    await second.flush()
    for process in (first, second, site.process()):
        for name in ("req-1", "req-2"):
            assert await process.find(name) == record(name)
        assert await process.find("req-3") is None


async def test_an_id_is_matched_whole(site: Site) -> None:
    """Neither a part of an id nor an id in another place of a line is taken for a request's."""
    folder = site.process()
    folder.keep(record("req-11", key="req-1"))
    assert await folder.find("req-1") is None
    assert await folder.find("eq-11") is None


async def test_a_record_is_found_across_slices(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the reader's slices end, the line is found."""
    monkeypatch.setattr("penstock.connectors.records.folder.SLICE_BYTES", 37)
    monkeypatch.setattr("penstock.connectors.records.folder.SLICE_PAUSE_S", 0.0)
    folder = site.process()
    for number in range(50):
        folder.keep(record(f"req-{number}"))
    for number in range(50):
        assert await folder.find(f"req-{number}") == record(f"req-{number}")


async def test_a_torn_line_is_unknown_and_hides_no_other(site: Site) -> None:
    """What a lost machine left half written is no record; whole ones beside it are found."""
    folder = site.process()
    folder.keep(record("req-1"))
    folder.keep(record("req-2"))
    await folder.flush()
    (file,) = site.folder.iterdir()
    os.truncate(file, file.stat().st_size - 5)
    again = site.process()
    assert await again.find("req-2") is None
    assert await again.find("req-1") == record("req-1")


async def test_the_folder_stays_within_its_bytes(site: Site) -> None:
    """The oldest records go first, and the newest are there."""
    folder = site.process()
    for number in range(20_000):
        folder.keep(record(f"req-{number}"))
        if number % 200 == 0:
            site.clock.advance(0.25)
            await folder.flush()
    assert await folder.find("req-19999") is not None
    assert await folder.find("req-0") is None
    assert 0.5 * BOUNDS.most_bytes < site.size <= BOUNDS.most_bytes


async def test_old_records_go(site: Site) -> None:
    """A record is deleted when its time is over, though nothing new comes."""
    folder = site.process()
    folder.keep(record("req-1"))
    await folder.flush()
    site.clock.advance(BOUNDS.keep_s - 1.0)
    await folder.flush()
    assert await folder.find("req-1") is not None
    site.clock.advance(SWEEP_EVERY_S)
    await folder.flush()
    assert await folder.find("req-1") is None
    folder.keep(record("req-2"))
    assert await folder.find("req-2") is not None


async def test_files_begin_anew_with_time(site: Site) -> None:
    """A quiet gateway's file does not grow for ever: it would be as young as its last line."""
    folder = site.process()
    for name in ("req-1", "req-2"):
        folder.keep(record(name))
        await folder.flush()
        site.clock.advance(SEGMENT_S + 1.0)
    assert len(list(site.folder.iterdir())) == 2


async def test_a_full_disk_costs_records_and_nothing_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk does not take is counted as lost; afterwards it goes on."""
    folder = site.process()
    folder.keep(record("req-1"))
    await folder.flush()
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        folder.keep(record("req-2"))
        assert await folder.find("req-2") is None
    assert site.lost == 1
    folder.keep(record("req-3"))
    assert await folder.find("req-3") is not None
    assert await folder.find("req-1") is not None


async def test_the_folder_is_closed_to_others(site: Site) -> None:
    """Nobody else of the machine reads who asked what when."""
    folder = site.process()
    folder.keep(record("req-1"))
    await folder.flush()
    assert site.folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in site.folder.iterdir())
