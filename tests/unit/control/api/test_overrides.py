"""Overrides of numbers over the operators' API: what is refused, with field and remedy, and what is audited."""

import pytest

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import OPERATORS, Role
from tests.support.clock import ManualClock
from tests.unit.control.autoscaler.test_autoscaler import Fleet, V, bounds

WAY = f"/admin/v1/scale/{V}/override"
GOOD = {"workers": 3, "for_s": 3600, "reason": "a launch"}


async def deployed(manual: ManualClock, **changes: object) -> Fleet:
    fleet = Fleet(manual, bounds(**changes))
    await fleet.deploy()
    await fleet.run(3, per_s=1.0)
    return fleet


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"workers": 5}, "workers", "most is 4: raise it, or override with at most 4"),
        ({"workers": 1}, "workers", "least is 2: lower it, or override with at least 2"),
        ({"workers": 0}, "workers", "penstock models scale VERSION 0"),
        ({"workers": -1}, "workers", "least is 2"),
        ({"workers": 2.5}, "workers", ""),
        ({"for_s": 0}, "for_s", "change the scale file"),
        ({"for_s": 604_801}, "for_s", "seven days"),
        ({"for_s": "NaN"}, "for_s", ""),
        ({"reason": " \n"}, "reason", "for the others"),
        ({"reason": "a\x1b[2J"}, "reason", "one line of 500 characters"),
        ({"reason": "a" * 501}, "reason", "one line of 500 characters"),
        ({"until": 1}, "until", ""),
    ],
)
async def test_what_can_not_hold_is_refused(
    clock: ManualClock, changes: dict[str, object], field: str, remedy: str
) -> None:
    """The answer names field and remedy, and nothing is stored."""
    fleet = await deployed(clock, least=2)
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        answer = await operator.put(WAY, json=GOOD | changes)
        shown = (await operator.get("/admin/v1/deployments")).json()["deployments"]
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field)
    assert remedy in error["message"]
    assert [one["override"] for one in shown] == [None]


async def test_a_reason_is_one_line_of_the_history(clock: ManualClock) -> None:
    """Line breaks in a reason forge no second entry."""
    fleet = await deployed(clock, least=2)
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        answer = await operator.put(WAY, json=GOOD | {"reason": " a\n\r\u2028launch\t"})
    assert answer.json()["override"]["reason"] == "a launch"


async def test_more_than_the_pools_hold_is_refused(clock: ManualClock) -> None:
    """The quota of the devices binds a person, too."""
    fleet = await deployed(clock)
    fleet.room.scaler._places = {V: 2}
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        answer = await operator.put(WAY, json=GOOD)
    assert answer.status_code == 400
    assert "hold 2 of them: enlarge them, or override with at most 2" in answer.json()["error"]["message"]


async def test_a_version_without_bounds_has_no_override(clock: ManualClock) -> None:
    """Its number is a person's already; and a version that does not exist is not found."""
    fleet = Fleet(clock, ())
    await fleet.deploy()
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        answer = await operator.put(WAY, json=GOOD)
    assert answer.status_code == 409
    assert f"penstock models scale {V}" in answer.json()["error"]["message"]
    fleet = Fleet(clock, bounds(versions="*"))
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        unknown = await operator.put("/admin/v1/scale/gone@000000000000/override", json=GOOD)
    assert unknown.status_code == 404


async def test_both_acts_are_audited_with_reason_and_end(clock: ManualClock) -> None:
    """By the key of whoever asked; there is nothing to clear afterwards."""
    fleet = await deployed(clock)
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        made = (await operator.put(WAY, json=GOOD)).json()["override"]
        assert (made["workers"], made["until"], made["reason"]) == (3, clock.now() + 3600, "a launch")
        cleared = await operator.delete(WAY)
        again = await operator.delete(WAY)
    assert (cleared.status_code, cleared.json()["override"], again.status_code) == (200, None, 409)
    acts = [one for one in await fleet.room.audit.newest(9) if one.what.startswith("scale.")]
    assert [one.what for one in acts] == ["scale.override_clear", "scale.override"]
    assert {one.who for one in acts} == {made["who"]}
    assert all("override of 3 until" in one.detail and "a launch" in one.detail for one in acts)


async def test_a_tenants_admin_and_an_auditor_override_nothing(clock: ManualClock) -> None:
    """The numbers are the operators'."""
    fleet = await deployed(clock)
    for role, tenant in ((Role.ADMIN, TenantId("acme")), (Role.AUDITOR, OPERATORS)):
        async with fleet.room.client(await fleet.room.key(role, tenant=tenant)) as caller:
            assert (await caller.put(WAY, json=GOOD)).status_code == 403
            assert (await caller.delete(WAY)).status_code == 403
