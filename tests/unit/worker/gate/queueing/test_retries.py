"""Places of those that were sent away: whose they are, when they lapse, what they cost whoever comes new."""

from dataclasses import replace

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import LAPSE_S, LOOK_AHEAD, MOST_KNOWN
from penstock.worker.gate.queueing.retries import Retries
from penstock.worker.gate.queueing.work import Work

WORK = Work(
    request=RequestId("r"),
    tenant=TenantId("t"),
    standing=Standing.PAID,
    weight=1.0,
    prompt_tokens=100,
    expected_output_tokens=50,
)
OTHERS = (
    replace(WORK, tenant=TenantId("u")),
    replace(WORK, standing=Standing.FREE),
    replace(WORK, prompt_tokens=101),
)


def test_a_place_is_its_owners_when_it_is_due_and_once() -> None:
    """Who comes before its time, of another tenant or standing, or with another prompt finds none."""
    returns = Retries()
    returns.expect(WORK, due_at=10.0, now=0.0)
    assert not returns.takes(WORK, 9.9)
    assert not any(returns.takes(one, 10.0) for one in OTHERS)
    assert returns.takes(WORK, 10.0)
    assert not returns.takes(WORK, 10.0)
    assert returns.before(WORK, 1.0, 10.0) == 0.0


def test_a_place_lapses_soon_after_it_was_due() -> None:
    """Nobody waits for who does not come, and the fewer come, the less the line counts."""
    returns = Retries()
    for _ in range(100):
        returns.expect(WORK, due_at=10.0, now=0.0)
    assert returns.before(WORK, 1.0, 0.0) == pytest.approx(100 * WORK.cost)
    assert not returns.takes(WORK, 10.1 + LAPSE_S)
    returns.expect(WORK, due_at=30.0, now=20.0)
    assert returns.before(WORK, 1.0, 20.0) < 0.01 * WORK.cost


def test_a_line_takes_its_tenants_share_and_no_more_than_all_lines() -> None:
    """A tenant with a tenth of the engine waits ten times its own line, where so much of others is to come."""
    returns = Retries()
    returns.expect(WORK, due_at=10.0, now=0.0)
    assert returns.before(WORK, 0.1, 0.0) == pytest.approx(WORK.cost)
    for _ in range(20):
        returns.expect(OTHERS[0], due_at=10.0, now=0.0)
    assert returns.before(WORK, 0.1, 0.0) == pytest.approx(10 * WORK.cost)


def test_what_is_to_come_costs_what_others_really_did() -> None:
    """Most answers are shorter than expected: a line of expectations would be told as too long."""
    returns = Retries()
    returns.expect(WORK, due_at=10.0, now=0.0)
    returns.learn(WORK, 0)
    assert returns.before(WORK, 1.0, 0.0) == WORK.cost, "nobody counted: unknown"
    returns.learn(WORK, 25)
    assert returns.before(WORK, 1.0, 0.0) == pytest.approx(150.0)


def test_lines_are_bounded() -> None:
    """A flood of refusals is remembered up to a bound, of a tenant and of all."""
    returns = Retries()
    for _ in range(2 * LOOK_AHEAD):
        returns.expect(WORK, due_at=10.0, now=0.0)
    assert returns.before(WORK, 1.0, 0.0) == pytest.approx(LOOK_AHEAD * WORK.cost)
    for number in range(2 * MOST_KNOWN):
        returns.expect(replace(WORK, tenant=TenantId(str(number))), due_at=10.0, now=0.0)
    assert len(returns) == MOST_KNOWN
    returns.expect(WORK, due_at=60.0, now=30.0)
    assert len(returns) == 1
