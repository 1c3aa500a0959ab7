"""Plans, budgets, usage and reconciliation over the operators' API, on the memory twins."""

import csv
import io
from dataclasses import replace

import httpx
import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.ids import Alias, VersionId
from penstock.domain.tenancy.budget import day
from penstock.domain.tenancy.tenant import CAPS, Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things
from tests.support.samples.ledger_rows import row

ADMIN = "/admin/v1"


async def test_organisations_hold_tenants(operator: httpx.AsyncClient) -> None:
    """A tenant is made in an organisation that exists, and shown with it."""
    made = await operator.post(f"{ADMIN}/orgs", json={"id": "group", "plan": {"tokens_per_min": 9}})
    assert made.status_code == 201
    assert (await operator.post(f"{ADMIN}/orgs", json={"id": "group"})).status_code == 409
    assert (await operator.post(f"{ADMIN}/orgs", json={"id": "No Good"})).status_code == 400
    listed = (await operator.get(f"{ADMIN}/orgs")).json()["orgs"]
    assert [(org["id"], org["plan"]["tokens_per_min"]) for org in listed] == [("default", 0), ("group", 9)]
    assert (await operator.post(f"{ADMIN}/tenants", json={"id": "shop", "org": "group"})).status_code == 201
    assert (await operator.get(f"{ADMIN}/tenants/shop")).json()["org"] == "group"
    lost = await operator.post(f"{ADMIN}/tenants", json={"id": "lost", "org": "nowhere"})
    assert (lost.status_code, lost.json()["error"]["param"]) == (400, "org")
    assert (await operator.get(f"{ADMIN}/tenants/nobody")).status_code == 400


async def test_a_plan_names_a_smaller_model_that_there_is(operator: httpx.AsyncClient, room: Room) -> None:
    """A typing error is told at once, with what there is, and not found out under pressure."""
    await room.registry.put_routes(((Alias("small"), things.route("small", VersionId("s@1"))),), things.act())
    for call in (
        operator.patch(f"{ADMIN}/tenants/acme/plan", json={"degrade_model": "smal"}),
        operator.post(f"{ADMIN}/tenants", json={"id": "shop", "plan": {"degrade_model": "smal"}}),
    ):
        error = (await call).json()["error"]
        assert error["param"].endswith("degrade_model")
        assert "there are: small" in error["message"]
    assert (await operator.patch(f"{ADMIN}/tenants/acme/plan", json={"degrade_model": "small"})).status_code == 200
    assert (await operator.patch(f"{ADMIN}/tenants/acme/plan", json={"degrade_model": ""})).status_code == 200


async def test_a_plan_changes_by_its_named_fields(operator: httpx.AsyncClient, room: Room) -> None:
    """What isn't named stays; who changed what is in the audit log."""
    path = f"{ADMIN}/tenants/acme/plan"
    await operator.patch(path, json={"priority": "interactive", "requests_per_min": 60})
    changed = await operator.patch(path, json={"requests_per_min": 0, "deadline_s": 2.5})
    plan = changed.json()
    assert (plan["priority"], plan["requests_per_min"], plan["deadline_s"]) == ("interactive", 0, 2.5)
    newest = (await room.audit.newest(1))[0]
    assert (newest.what, newest.target, newest.detail) == (
        "tenant.plan",
        "tenant:acme",
        "requests_per_min=0, deadline_s=2.5",
    )


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tenants/acme/plan", {}, None),
        ("/tenants/acme/plan", {"weight": 0}, "weight"),
        ("/tenants/acme/plan", {"max_streams": -1}, "max_streams"),
        ("/tenants/acme/plan", {"tokens_per_min": 2**60}, "tokens_per_min"),
        ("/tenants/acme/plan", {"requests_per_min": 1.5}, "requests_per_min"),
        ("/tenants/acme/plan", {"priority": "royal"}, "priority"),
        ("/tenants/acme/plan", {"speed": 1}, "speed"),
        ("/tenants/nobody/plan", {"weight": 2}, "tenant"),
        ("/orgs/default/plan", {"weight": 2}, "weight"),
        ("/orgs/default/plan", {"priority": "batch"}, "priority"),
        ("/orgs/default/plan", {"degrade_model": "small"}, "degrade_model"),
        ("/tenants/acme/plan", {"degrade_output_tokens": -1}, "degrade_output_tokens"),
        ("/orgs/default/plan", {"paid": False}, "paid"),
        ("/orgs/default/plan", {"reserved": 0.1}, "reserved"),
        ("/tenants/acme/plan", {"reserved": 0.6}, "reserved"),
        ("/tenants/acme/plan", {"reserved": 0.1, "paid": False}, "reserved"),
        ("/tenants/acme/plan", {"kv_part": 1.1}, "kv_part"),
        ("/tenants/acme/plan", {"kv_part": -0.1}, "kv_part"),
        ("/tenants/acme/plan", {"kv_part": 0.1, "reserved": 0.2}, "kv_part"),
        ("/orgs/default/plan", {"kv_part": 0.5}, "kv_part"),
        ("/tenants/acme/plan", {"batch_enqueued_tokens": -1}, "batch_enqueued_tokens"),
        ("/tenants/acme/plan", {"files": -1}, "files"),
        ("/tenants/acme/plan", {"job_attempts": 0}, "job_attempts"),
        ("/tenants/acme/plan", {"job_deadline_s": 0}, "job_deadline_s"),
        ("/tenants/acme/plan", {"keep_s": 3599}, "keep_s"),
        ("/tenants/acme/plan", {"keep_files_s": 3599}, "keep_files_s"),
        ("/tenants/acme/plan", {"keep_answers_s": 59}, "keep_answers_s"),
        ("/tenants/acme/plan", {"keep_matches_s": 91 * 86_400}, "keep_matches_s"),
        ("/tenants/acme/plan", {"batch_hours": "at night"}, "batch_hours"),
        ("/tenants/acme/plan", {"batch_hours": "22:00-06:00 Europe/Atlantis"}, "batch_hours"),
        ("/tenants/acme/plan", {"batch_pools": "Spot"}, "batch_pools"),
        ("/tenants/acme/plan", {"batch_pools": "spot,,nights"}, "batch_pools"),
        ("/tenants/acme/plan", {"batch_windows": "a day"}, "batch_windows"),
        ("/tenants/acme/plan", {"batch_windows": "1000h"}, "batch_windows"),
        ("/tenants/acme/plan", {"batch_yield": "never"}, "batch_yield"),
        ("/orgs/default/plan", {"batch_jobs": 5}, "batch_jobs"),
        ("/keys/nobody/plan", {"max_streams": 2}, "key"),
        ("/budgets/tenant/acme", {}, None),
        ("/budgets/tenant/acme", {"spend_per_day": -5}, "spend_per_day"),
        ("/budgets/tenant/acme", {"weight": 5}, "weight"),
        ("/budgets/world/acme", {"spend_per_day": 5}, "kind"),
        ("/budgets/org/nobody", {"spend_per_day": 5}, "org"),
    ],
)
async def test_what_is_no_plan_is_refused(
    operator: httpx.AsyncClient, room: Room, path: str, body: dict[str, object], param: str | None
) -> None:
    """The answer names the field, and nothing was changed or noted."""
    before = await room.audit.newest(99)
    answer = await operator.patch(ADMIN + path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert await room.audit.newest(99) == before


async def test_a_moved_tenants_spend_counts_for_its_new_organisation(operator: httpx.AsyncClient, room: Room) -> None:
    """From the move on the new organisation's budget holds what its tenants have spent, and the log says who moved."""
    await operator.post(f"{ADMIN}/orgs", json={"id": "retail", "plan": {"spend_per_month": 100}})
    await room.ledger.append([row("r1", at=room.clock.now(), cost=30)])

    async def spent() -> list[int]:
        return [one["spent"] for one in (await operator.get(f"{ADMIN}/budgets")).json()["budgets"]]

    assert await spent() == [0]
    moved = await operator.put(f"{ADMIN}/tenants/acme/org", json={"org": "retail"})
    assert (moved.status_code, moved.json()["org"]) == (200, "retail")
    assert await spent() == [30]
    newest = (await room.audit.newest(1))[0]
    assert (newest.what, newest.target, newest.detail) == ("tenant.move", "acme", "from default to retail")


@pytest.mark.parametrize(
    ("tenant", "body", "param"),
    [("nobody", {"org": "default"}, "tenant"), ("acme", {"org": "nowhere"}, "org"), ("acme", {}, "org")],
)
async def test_nobody_moves_to_nowhere(
    operator: httpx.AsyncClient, room: Room, tenant: str, body: dict[str, str], param: str | None
) -> None:
    """Unknown tenants and organisations are named, and nothing is noted."""
    before = await room.audit.newest(99)
    answer = await operator.put(f"{ADMIN}/tenants/{tenant}/org", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert await room.audit.newest(99) == before


async def test_a_key_has_bounds_of_its_own(operator: httpx.AsyncClient) -> None:
    """They are given when it is made or later, shown in lists, and inherited by its successor."""
    body = {"tenant": "acme", "plan": {"max_streams": 2}}
    key = (await operator.post(f"{ADMIN}/keys", json=body)).json()
    assert key["plan"]["max_streams"] == 2
    await operator.patch(f"{ADMIN}/keys/{key['id']}/plan", json={"requests_per_min": 7})
    successor = (await operator.post(f"{ADMIN}/keys/{key['id']}/rotate", json={})).json()
    assert (successor["plan"]["max_streams"], successor["plan"]["requests_per_min"]) == (2, 7)
    classy = await operator.post(f"{ADMIN}/keys", json={"tenant": "acme", "plan": {"priority": "interactive"}})
    assert (classy.status_code, classy.json()["error"]["param"]) == (400, "plan.priority")


async def test_a_budget_counts_what_was_spent_before_it_was_set(
    operator: httpx.AsyncClient, room: Room, clock: ManualClock
) -> None:
    """A cap in the middle of the day is shown with the day's spend, and the shared meter knows of it at once."""
    await room.ledger.append([row("r1", at=clock.now(), cost=30), row("r2", at=clock.now() - 86_400, cost=900)])
    put = await operator.patch(f"{ADMIN}/budgets/tenant/acme", json={"spend_per_day": 40})
    assert put.json()["spend_per_day"] == 40
    shown = (await operator.get(f"{ADMIN}/budgets")).json()["budgets"]
    assert [(one["scope"], one["period"], one["cap"], one["spent"], one["used_ratio"]) for one in shown] == [
        ("tenant:acme", "day", 40, 30, 0.75)
    ]
    assert shown[0]["ends_at"] == day(clock.now()).span.end
    meter = f"tenant:acme:spend:{day(clock.now()).name}"
    assert await room.meters.spent([meter]) == {meter: 30}
    assert (await room.audit.newest(1))[0].what == "tenant.budget"


async def test_reconciling_finds_and_mends_a_difference(
    operator: httpx.AsyncClient, room: Room, clock: ManualClock
) -> None:
    """At rest nothing differs; a meter that does is shown, put right by a rebuild, and noted."""
    await operator.patch(f"{ADMIN}/budgets/tenant/acme", json={"spend_per_day": 100})
    await room.ledger.append([row("r1", at=clock.now(), cost=30)])
    meter = f"tenant:acme:spend:{day(clock.now()).name}"
    await room.meters.put_spent({meter: 70})
    found = (await operator.get(f"{ADMIN}/budgets/reconcile")).json()
    assert [(one["scope"], one["ledger"], one["counted"], one["difference"]) for one in found["budgets"]] == [
        ("tenant:acme", 30, 70, 40)
    ]
    mended = (await operator.post(f"{ADMIN}/budgets/reconcile")).json()
    assert (mended["corrected"], mended["budgets"][0]["difference"]) == (1, 0)
    assert (await operator.post(f"{ADMIN}/budgets/reconcile")).json()["corrected"] == 0
    assert (await room.audit.newest(1))[0].what == "budgets.rebuild"


async def test_meters_inside_gateways_are_told_as_such(room: Room) -> None:
    """Without a shared store there is nothing to compare, and a rebuild says who does it."""
    room.control = replace(room.control, meters=None)
    async with room.client(await room.key(Role.ADMIN)) as operator:
        assert (await operator.get(f"{ADMIN}/budgets/reconcile")).json()["shared"] is False
        refused = await operator.post(f"{ADMIN}/budgets/reconcile")
        assert refused.status_code == 409
        assert (await operator.patch(f"{ADMIN}/budgets/tenant/acme", json={"spend_per_day": 1})).status_code == 200
    assert isinstance(room.meters, MemoryLimits)


async def test_usage_is_summed_over_a_span(operator: httpx.AsyncClient, room: Room, clock: ManualClock) -> None:
    """Silent is this month until now; a span leaves its end out."""
    now = clock.now()
    rows = [row(f"r{i}", at=now - i, cost=10) for i in range(1, 5)] + [row("old", at=now - 40 * 86_400, cost=9)]
    await room.ledger.append([*rows, row("other", at=now - 1, cost=5, tenant="other")])
    whole = (await operator.get(f"{ADMIN}/usage/acme")).json()
    assert [(line["requests"], line["cost"], line["outcome"]) for line in whole["lines"]] == [(4, 40, "ok")]
    some = await operator.get(f"{ADMIN}/usage/acme", params={"begin": now - 3.5, "end": now - 1.5})
    assert [line["requests"] for line in some.json()["lines"]] == [2]
    assert (await operator.get(f"{ADMIN}/usage/nobody")).status_code == 400
    assert (await operator.get(f"{ADMIN}/usage/acme", params={"begin": "nan"})).status_code == 400


async def test_the_ledger_is_exported_page_by_page(operator: httpx.AsyncClient, room: Room, clock: ManualClock) -> None:
    """Both formats give every row once, in order, however small the pages are."""
    now = clock.now()
    await room.ledger.append([row(f"r{i:02}", at=now - 60 + i, cost=i, tenant="ab"[i % 2]) for i in range(21)])
    for form in ("json", "csv"):
        seen: list[str] = []
        after = ""
        while True:
            query = {"tenant": "a", "limit": "4", "after": after, "format": form}
            page = await operator.get(f"{ADMIN}/usage/rows", params=query)
            if form == "json":
                seen += [one["request"] for one in page.json()["rows"]]
                after = page.json()["next"]
            else:
                assert page.headers["content-type"].startswith("text/csv")
                seen += [one["request"] for one in csv.DictReader(io.StringIO(page.text))]
                after = page.headers["x-penstock-next"]
            if not after:
                break
        assert seen == [f"r{i:02}" for i in range(0, 21, 2)]


@pytest.mark.parametrize("query", [{"limit": "many"}, {"begin": "inf"}, {"after": "x,y"}, {"end": "soon"}])
async def test_a_bad_export_query_is_refused(operator: httpx.AsyncClient, query: dict[str, str]) -> None:
    """Words for numbers answer 400 with the parameter's name."""
    answer = await operator.get(f"{ADMIN}/usage/rows", params=query)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(query)))


OF_JOBS = ("batch_enqueued_tokens", "batch_jobs", "file_bytes", "files", "job_attempts", "job_deadline_s", "keep_s")


@pytest.mark.parametrize("bound", [*CAPS, "degrade_output_tokens", "reserved", "kv_part", *OF_JOBS])
@pytest.mark.parametrize("value", ["1" + 309 * "0", "-1" + 309 * "0", "1e308", "NaN", "Infinity"])
async def test_no_bound_is_beyond_all_numbers(operator: httpx.AsyncClient, bound: str, value: str) -> None:
    """Each bound of a plan: what no store can count in is a 400, however it is written."""
    body = f'{{"{bound}": {value}}}'
    answer = await operator.patch(f"{ADMIN}/tenants/acme/plan", content=body)
    assert answer.status_code == 400
