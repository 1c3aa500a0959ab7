"""The budget of a cold start: it adds up, spares what a machine has, and gives way to what was measured."""

import pytest

from penstock.capacity.cold_start import (
    GIB,
    MEASURED,
    PUBLISHED,
    Machine,
    PartBudget,
    Start,
    StartPart,
    budget,
    measured,
)
from penstock.cli.planned import starts_of
from penstock.domain.fleet.worker import WorkerState
from tests.support import tree

PUBLISHED_GIB = 51.75
PAGE = tree.ROOT / "docs/how-it-decides/scaling.md"


def seconds(parts: tuple[PartBudget, ...]) -> dict[StartPart, float]:
    return {one.part: one.seconds for one in parts}


def published(machine: Machine) -> tuple[PartBudget, ...]:
    return budget(machine, int(PUBLISHED_GIB * GIB))


def test_the_published_parts_add_up() -> None:
    """For the published machine and model the parts give the published 966 s, each part once and in order."""
    parts = published(Machine.NEW)
    assert [one.part for one in parts] == list(StartPart)
    assert sum(one.seconds for one in parts) == pytest.approx(966, abs=0.1)
    assert {one.source for one in parts} == {PUBLISHED}


def test_a_prepared_machine_spares_its_parts() -> None:
    """A stopped machine needs no launch and no image, a running one no driver either; the rest is the same."""
    new, warm, held = (seconds(published(machine)) for machine in (Machine.NEW, Machine.WARM, Machine.HELD))
    assert {part for part in StartPart if warm[part] != new[part]} == {StartPart.NODE, StartPart.IMAGE}
    assert {part for part in StartPart if held[part] != new[part]} == {
        StartPart.NODE,
        StartPart.DRIVER,
        StartPart.IMAGE,
    }
    assert all(not held[part] for part in (StartPart.NODE, StartPart.DRIVER, StartPart.IMAGE))


def test_weights_take_by_their_bytes() -> None:
    """Twice the bytes take twice the seconds, and nothing else changes."""
    small, large = (seconds(budget(Machine.NEW, size * GIB)) for size in (10, 20))
    assert large[StartPart.WEIGHTS] == pytest.approx(2 * small[StartPart.WEIGHTS])
    assert {part for part in StartPart if large[part] != small[part]} == {StartPart.WEIGHTS}


def test_what_was_measured_replaces_what_was_published() -> None:
    """Each measured part takes its longest measurement, the others stay published."""
    starts = [
        Start(phases={WorkerState.FETCHING: 20.0, WorkerState.VERIFYING: 2.0, WorkerState.LOADING: 30.0}),
        Start(machine_s=90.0, phases={WorkerState.VERIFYING: 4.0, WorkerState.LOADING: 25.0}),
    ]
    found = {one.part: (one.seconds, one.source) for one in measured(published(Machine.NEW), starts)}
    assert found[StartPart.NODE] == (90.0, MEASURED)
    assert found[StartPart.DRIVER] == (0.0, MEASURED)
    assert found[StartPart.WEIGHTS] == (22.0, MEASURED)
    assert found[StartPart.ENGINE] == (30.0, MEASURED)
    assert found[StartPart.IMAGE] == (111.0, PUBLISHED)
    assert found[StartPart.GOLDEN] == (93.0, PUBLISHED)
    assert measured(published(Machine.NEW), []) == published(Machine.NEW)


def test_only_starts_of_the_version_are_taken() -> None:
    """A worker of another version, one that still starts, and a wake measured no start of this version."""
    timings = [{"phase": "fetching", "seconds": 1.0}, {"phase": "warming", "seconds": 2.0}]
    worker = {"version": "a@1", "state": "ready", "machine_s": 5.0, "image_s": 6.0, "phases": timings}
    wake = [{"phase": "waking", "seconds": 1.0}, {"phase": "warming", "seconds": 2.0}]
    others = [{**worker, "version": "b@1"}, {**worker, "state": "loading"}, {**worker, "phases": wake}]
    phases = {WorkerState.FETCHING: 1.0, WorkerState.WARMING: 2.0}
    assert starts_of([*others, worker], "a@1") == [Start(machine_s=5.0, image_s=6.0, phases=phases)]


@pytest.mark.parametrize("machine", Machine)
def test_the_page_shows_the_budget(machine: Machine) -> None:
    """The page's table is the code's, by part and in total."""
    parts = published(machine)
    cells = [machine.value, *(f"{one.seconds:.0f}" for one in parts), f"**{sum(one.seconds for one in parts):.0f}**"]
    assert f"| {' | '.join(cells)} |" in PAGE.read_text()
