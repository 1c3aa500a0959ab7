"""Mutation: every threshold of every case, moved by a factor of two either way, is noticed by a situation."""

from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.diagnosis import cases
from penstock.diagnosis.cases import (
    batch_too_small,
    cold_start,
    cpu_taken,
    disk_full,
    engine_saturated,
    fullest,
    gateway_bound,
    kv_bound,
    limits_away,
    limits_slow,
    lost_worker,
    no_worker,
    noisy_neighbour,
    prefill_interference,
    slow_clients,
    slow_zone,
    unhealthy_version,
)
from penstock.diagnosis.evidence import State
from penstock.diagnosis.snapshot import Snapshot
from tests.support.scenarios.diagnoses import ALSO, LEFT_OPEN, SITUATIONS, Look
from tests.support.scenarios.neighbours import NEIGHBOURS

MODULES = (
    batch_too_small, cold_start, cpu_taken, disk_full, engine_saturated, fullest, gateway_bound, kv_bound, limits_away,
    limits_slow, lost_worker, no_worker, noisy_neighbour, prefill_interference, slow_clients, slow_zone,
    unhealthy_version,
)  # fmt: skip


def thresholds() -> Iterator[tuple[ModuleType, str]]:
    """Yield every number that a case is decided by."""
    for module in MODULES:
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, float):
                yield module, name


ALL = list(thresholds())
SHARED = {fullest.__name__}
"""A module of checks that several cases use."""


EXPECTED = (
    *((case, site, State.FOUND) for case, site in (*SITUATIONS.items(), *ALSO)),
    *((case, site, State.UNDECIDED) for case, site in LEFT_OPEN),
    *((one.case, one.site, State.RULED_OUT) for one in NEIGHBOURS),
)
RULES = {rule(Snapshot(seconds=1.0)).case: rule for rule in cases.CASES}


def wrong(look: Look) -> int:
    """Return how many situations are judged otherwise than they should be."""
    return sum(1 for case, site, state in EXPECTED if RULES[case](look(site)).state is not state)


def test_every_case_file_is_looked_at() -> None:
    """No rule's thresholds are left out of the mutation."""
    assert {rule.__module__ for rule in cases.CASES} == {module.__name__ for module in MODULES} - SHARED
    assert len(ALL) >= 2 * len(cases.CASES) - 4


def test_unmoved_thresholds_judge_rightly(look: Look) -> None:
    """Every situation and every neighbour is judged as it should be by the thresholds that ship."""
    assert wrong(look) == 0


@pytest.mark.parametrize(("module", "name"), ALL, ids=lambda one: getattr(one, "__name__", one))
@settings(max_examples=8)
@given(factor=st.floats(min_value=2.0, max_value=50.0), is_up=st.booleans())
def test_a_moved_threshold_is_noticed(look: Look, module: ModuleType, name: str, factor: float, is_up: bool) -> None:
    """A threshold that is moved so far, up or down, lets a situation be judged wrongly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, getattr(module, name) * (factor if is_up else 1 / factor))
        assert wrong(look) > 0
