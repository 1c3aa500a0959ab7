"""Rollouts over the operators' API, end to end on the memory twins: what starts, what is refused, who steers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, ModelName, VersionId
from penstock.domain.models.model import Manifest, Task, Tier, digest_of
from penstock.domain.outcome import Outcome
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.rollout.rollout import Change, State, Step, Stored
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.controllers.rollouts import WHY, Site, chat, like
from tests.support.samples import control_plane as things
from tests.support.samples.ledger_rows import row


@pytest.fixture
def room(clock: ManualClock) -> Room:
    """Return a controller in memory."""
    return Room(clock)


@pytest.fixture
async def site(room: Room) -> AsyncIterator[Site]:
    """Yield an alias at one version, and an operator."""
    async with chat(room) as found:
        yield found


async def test_it_starts_at_its_first_share_beside_who_had_everything(site: Site) -> None:
    """The answer, the alias, the history and the audit log tell the same."""
    (old,) = await site.shares()
    new = await site.version(like())
    started = await site.start(new, reason="bfloat16 is cheaper")
    assert started.status_code == 201
    shown = started.json()
    assert (shown["incumbent"], shown["candidate"], shown["weight"], shown["state"]) == (old, new, 100, "running")
    assert await site.shares() == {old: 9900, new: 100}
    whole = (await site.operator.get(f"/admin/v1/rollouts/{shown['id']}")).json()
    assert [(one["actor"] == "", one["says"]) for one in whole["history"]] == [(False, "bfloat16 is cheaper")]
    (act,) = [one for one in await site.room.audit.newest(5) if one.what == "rollout.start"]
    assert (act.target, act.detail) == (shown["id"], "chat: bfloat16 is cheaper")


async def test_a_person_steers_it_with_a_reason(site: Site) -> None:
    """Held, resumed, promoted and aborted; each stands in the history with who did it and why."""
    (old,) = await site.shares()
    new = await site.version(like())
    at = f"/admin/v1/rollouts/{(await site.start(new)).json()['id']}"
    words = ("hold", "resume", "promote", "abort")
    states = [(await site.operator.post(f"{at}/{word}", json=WHY)).json()["state"] for word in words]
    assert states == ["held", "running", "running", "aborted"]
    assert await site.shares() == {old: 10_000}
    told = (await site.operator.get(at)).json()["history"]
    assert [(one["number"], one["stage"], one["says"]) for one in told][1:] == [
        (2, 0, "as agreed"), (3, 0, "as agreed"), (4, 1, "as agreed"), (5, 1, "as agreed"),
    ]  # fmt: skip
    again = await site.operator.post(f"{at}/abort", json=WHY)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert (await site.start(new)).status_code == 201


@pytest.mark.parametrize(
    ("manifest", "more", "status", "says"),
    [
        (like(task=Task.EMBED), {}, 400, "its task differs"),
        (like(tier=Tier.BATCH), {}, 400, "its tier differs"),
        (like(chat_template=""), {}, 400, "its use of chat messages differs"),
        (like(files=(replace(things.manifest().files[0], sha256="d" * 64),)), {}, 400, "its tokenizer differs"),
        (like(price=things.price(output=301)), {}, 409, "output $0.0003 -> $0.000301"),
        (like(), {"stages": []}, 400, "name one stage"),
        (like(), {"stages": [{"name": "all", "weight": 10_000}]}, 400, "only the last stage"),
        (
            like(),
            {"stages": [{"name": "a", "weight": 5000}, {"name": "b", "weight": 100, "watched": True}]},
            400,
            "shares never fall",
        ),
        (like(), {"stages": [{"name": "a", "weight": 10_001, "watched": True}]}, 400, "each share but the first"),
        (like(), {"patience_s": -1}, 400, "times are seconds"),
        (like(), {"blast": {"tokens_ratio": 0.0}}, 400, "tokens_ratio must be above 0"),
        (
            like(),
            {"blast": {"out": ["acme"], "first": ["acme"]}},
            400,
            "acme can't both keep the incumbent and get the candidate first",
        ),
        (like(), {"override_budget": True}, 400, "a reason for overriding the error budget"),
        (like(), {"blast": {"tokens_ratio": 0.001}}, 400, "it would be held at once"),
        (like(), {"blast": {"out": ["nosuch"]}}, 400, "there is no tenant nosuch"),
        (like(), {"blast": {"first": ["nosuch"]}}, 400, "there is no tenant nosuch"),
        (like(), {"blast": {"first": ["closed"]}}, 400, "no key of closed may use chat"),
        (like(), {"reason": "x" * 501}, 400, "a reason is one line"),
        (like(), {"reason": "a\x00b"}, 400, "a reason is one line"),
        (like(), {"kind": "magic"}, 400, "kind"),
        (like(), {"share": 5}, 400, "share"),
        (like(), {"alias": "nobody"}, 404, "there is no alias nobody"),
    ],
)
async def test_what_can_not_be_rolled_out_is_refused_and_nothing_starts(
    site: Site, manifest: Manifest, more: dict[str, Any], status: int, says: str
) -> None:
    """Each refusal names what is wrong; the alias stays where it was."""
    before = await site.shares()
    refused = await site.start(await site.version(manifest), **more)
    assert refused.status_code == status
    assert says in refused.text
    assert await site.shares() == before
    assert (await site.operator.get("/admin/v1/rollouts")).json() == {"rollouts": []}


async def test_versions_that_can_not_take_part_are_refused(site: Site) -> None:
    """The incumbent itself, an unknown one, one without a deployment, one without a worker, one on its way already."""
    (old,) = await site.shares()
    idle = await site.version(like("e"), workers=0)
    asked = [(await site.start(one)).json()["error"]["message"] for one in (old, "no@1", idle)]
    assert [text.split(":")[0] for text in asked] == [
        "the candidate is the incumbent itself",
        "there is no version no@1",
        f"{idle} is not deployed, so no worker could answer",
    ]
    await site.operator.put(f"/admin/v1/deployments/{idle}", json={"replicas": 1})
    assert "no worker of" in (await site.start(idle)).text
    first, second = await site.version(like("c")), await site.version(like("f"))
    assert (await site.start(first)).status_code == 201
    assert "chat has a rollout already" in (await site.start(second)).text


async def test_what_nobody_signed_is_no_version_and_nobodys_candidate(site: Site) -> None:
    """Without a signature, with another's, and then as a candidate: refused, and the alias stays where it was."""
    before, manifest = await site.shares(), like()
    for signature in ("", f"signatures/{digest_of(things.manifest())}"):
        refused = await site.operator.post(
            "/admin/v1/models", json={"manifest": asdict(manifest), "signature": signature}
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "artifact_refused"), refused.text
    refused = await site.start(f"{manifest.name}@{digest_of(manifest)[:12]}")
    assert (refused.status_code, "there is no version" in refused.text) == (400, True)
    assert await site.shares() == before


async def test_a_dearer_list_and_another_tokenizer_are_a_persons_word(site: Site) -> None:
    """What was refused starts where the caller says that it was meant."""
    dear = await site.version(like("c", price=things.price(output=900)))
    started = await site.start(dear, accept_dearer=True)
    assert started.status_code == 201
    await site.operator.post(f"/admin/v1/rollouts/{started.json()['id']}/abort", json=WHY)
    files = (replace(things.manifest().files[0], sha256="d" * 64),)
    other = await site.version(replace(like("e", files=files), name=ModelName("other")))
    assert (await site.start(other, kind="different")).status_code == 201


async def test_a_shared_alias_has_no_incumbent(site: Site) -> None:
    """Somebody says first who it is."""
    (old,) = await site.shares()
    new = await site.version(like())
    await site.lead(old, new)
    assert "several versions share chat" in (await site.start(new)).text


async def test_nothing_else_moves_an_alias_or_stops_a_version_on_its_way(site: Site) -> None:
    """Setting and removing the alias, going back to an older table, and scaling to zero are refused until it ends."""
    (old,) = await site.shares()
    new = await site.version(like())
    await site.room.loop.tick()
    number = (await site.room.tables.latest()).number
    started = (await site.start(new)).json()
    await site.room.loop.tick()
    admin = "/admin/v1"
    refused = [
        await site.operator.put(f"{admin}/aliases/chat", json={"shares": [{"version": old, "weight": 10_000}]}),
        await site.operator.delete(f"{admin}/aliases/chat"),
        await site.operator.put(f"{admin}/deployments/{old}", json={"replicas": 0}),
        await site.operator.put(f"{admin}/deployments/{new}", json={"replicas": 0}),
        await site.operator.post(f"{admin}/table/rollback", json={"number": number}),
    ]
    assert [one.status_code for one in refused] == [409] * 5
    assert await site.shares() == {old: 9900, new: 100}
    await site.operator.post(f"{admin}/rollouts/{started['id']}/abort", json=WHY)
    assert (await site.operator.put(f"{admin}/deployments/{new}", json={"replicas": 0})).status_code == 200


async def test_a_spent_budget_refuses_until_somebody_overrides_it_with_a_reason(site: Site) -> None:
    """Starts and promotions; an abort is never refused."""
    (old,) = await site.shares()
    new = await site.version(like())
    ends = [Outcome.OK] * 9000 + [Outcome.INTERNAL] * 60
    rows = [
        row(f"r{number}", at=things.NOW, cost=1, version=VersionId(old), outcome=one) for number, one in enumerate(ends)
    ]
    await site.room.ledger.append(rows)
    assert "the error budget of tier chat is spent" in (await site.start(new)).text
    assert "give a reason" in (await site.start(new, override_budget=True)).text
    started = await site.start(new, override_budget=True, reason="the cure is in it")
    assert started.status_code == 201
    at = f"/admin/v1/rollouts/{started.json()['id']}"
    assert "is spent" in (await site.operator.post(f"{at}/promote", json=WHY)).text
    promoted = await site.operator.post(f"{at}/promote", json={**WHY, "override_budget": True})
    assert promoted.json()["stage"] == 1
    assert (await site.operator.post(f"{at}/abort", json=WHY)).json()["state"] == "aborted"


async def test_who_promotes_at_a_time_goes_one_stage(site: Site) -> None:
    """Six at once, or once more from the stage that was seen: the others hear that it is at another one."""
    new = await site.version(like())
    at = f"/admin/v1/rollouts/{(await site.start(new)).json()['id']}"
    seen = await site.operator.post(f"{at}/promote", json={**WHY, "stage": 0})
    again = await site.operator.post(f"{at}/promote", json={**WHY, "stage": 0})
    assert (seen.json()["stage"], again.status_code) == (1, 409)
    assert "another stage meanwhile" in again.text
    found = await asyncio.gather(*(site.operator.post(f"{at}/promote", json={**WHY, "stage": 1}) for _ in range(6)))
    assert sorted(one.status_code for one in found) == [200, *[409] * 5]
    assert (await site.operator.get(at)).json()["stage"] == 2


async def test_a_plan_reads_the_hours_before_and_starts_nothing(site: Site, clock: ManualClock) -> None:
    """Five requests a second of the alias, and those of another one left out: thin shares are told as such."""
    new = await site.version(like(price=things.price(output=900)), workers=0)
    for _ in range(61):
        told = ((Alias("chat"), 300), (Alias("other"), 4_000))
        await site.room.arms.tell(ArmSecond(gateway="g", life="l", number=1, at=0, asked=told))
        clock.advance(60.0)
    clock.advance(-clock.now() % 60.0)
    body = {"alias": "chat", "candidate": new}
    planned = (await site.operator.post("/admin/v1/rollout-plans?hours=1", json=body)).json()
    assert planned["per_s"] == pytest.approx(5.0)
    assert (planned["takes_s"], planned["over_s"]) == (None, 3600.0)
    few = (await site.operator.post("/admin/v1/rollout-plans?hours=0.1", json=body)).json()
    assert (few["per_s"], few["over_s"]) == (pytest.approx(5.0), 360.0)
    assert [(one["name"], one["needs_s"] is None) for one in planned["stages"]][:4] == [
        ("shadow", False), ("1 %", True), ("5 %", False), ("25 %", False),
    ]  # fmt: skip
    assert "a proof with 180 requests an hour takes" in planned["stages"][1]["lacks"]
    assert (await site.operator.get("/admin/v1/rollouts")).json() == {"rollouts": []}
    for wrong, status in (({**body, "stages": []}, 400), ({**body, "alias": "no"}, 404), ({**body, "x": 1}, 400)):
        assert (await site.operator.post("/admin/v1/rollout-plans", json=wrong)).status_code == status
    for hours in ("0", "-1", "nan", "1e9", "soon"):
        refused = await site.operator.post(f"/admin/v1/rollout-plans?hours={hours}", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "hours")


async def test_a_person_who_comes_second_need_not_come_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick froze it between the look and the abort: the abort is of the frozen one."""
    new = await site.version(like())
    rollout = (await site.start(new)).json()["id"]
    look = site.room.rollouts.one

    async def then_frozen(wanted: str) -> Stored | None:
        found = await look(wanted)
        if found is not None and found.number == 1:
            frozen = replace(found.rollout, state=State.FROZEN)
            change = Change(
                rollout=wanted, number=2, at=things.NOW, actor="controller", state=State.FROZEN, stage=0, says="spent"
            )
            await site.room.rollouts.go_on(Step(rollout=frozen, change=change), things.act())
        return found

    monkeypatch.setattr(site.room.rollouts, "one", then_frozen)
    aborted = await site.operator.post(f"/admin/v1/rollouts/{rollout}/abort", json=WHY)
    assert (aborted.status_code, aborted.json()["state"], aborted.json()["number"]) == (200, "aborted", 3)


async def test_steering_takes_a_reason_a_known_word_and_a_known_rollout(site: Site) -> None:
    """Everything else is a clear refusal."""
    new = await site.version(like())
    at = f"/admin/v1/rollouts/{(await site.start(new)).json()['id']}"
    asked = [
        await site.operator.post(f"{at}/hold", json={"reason": " "}),
        await site.operator.post(f"{at}/hold", json={}),
        await site.operator.post(f"{at}/dance", json=WHY),
        await site.operator.post("/admin/v1/rollouts/ro-none/hold", json=WHY),
        await site.operator.get("/admin/v1/rollouts/ro-none"),
    ]
    assert [one.status_code for one in asked] == [400, 400, 404, 404, 404]


async def test_the_operators_auditor_reads_and_steers_nothing(site: Site) -> None:
    """Rollouts and comparisons are among what an auditor reads of all tenants."""
    new = await site.version(like())
    at = f"/admin/v1/rollouts/{(await site.start(new)).json()['id']}"
    async with site.room.client(await site.room.key(Role.AUDITOR)) as auditor:
        reads = ("/admin/v1/rollouts", at, "/admin/v1/aliases/chat/comparison")
        assert [(await auditor.get(one)).status_code for one in reads] == [200] * 3
        assert (await auditor.post(f"{at}/abort", json=WHY)).status_code == 403


async def test_one_that_runs_is_planned_and_one_with_a_shorter_context_says_so(site: Site) -> None:
    """Beside its own incumbent: a runbook asks how long its next shares will take."""
    short = await site.version(like(engine=replace(things.manifest().engine, max_model_len=512)))
    started = (await site.start(short)).json()
    assert "its context is 512 tokens, not 2048" in started["history"][0]["says"]
    planned = await site.operator.post("/admin/v1/rollout-plans", json={"alias": "chat", "candidate": short})
    assert planned.status_code == 200


@pytest.mark.parametrize("role", [Role.INFER, Role.AUDITOR])
async def test_only_operators_may(site: Site, role: Role) -> None:
    """Neither look nor start nor steer with another role, or as another tenant's admin."""
    new = await site.version(like())
    at = f"/admin/v1/rollouts/{(await site.start(new)).json()['id']}"
    for key in (await site.room.key(role, tenant="acme"), await site.room.key(Role.ADMIN, tenant="acme")):
        async with site.room.client(key) as other:
            asked = [
                await other.get("/admin/v1/rollouts"),
                await other.get(at),
                await other.post("/admin/v1/rollouts", json={"alias": "chat", "candidate": new}),
                await other.post(f"{at}/abort", json=WHY),
            ]
        assert [one.status_code for one in asked] == [403] * 4


async def test_a_candidate_that_sleeps_is_woken_first(site: Site) -> None:
    """A rollout's versions are awake, so that copies and callers find it as it will be; the refusal says how."""
    (old,) = await site.shares()
    new = await site.version(like())
    site.room.heartbeats.take(things.report(f"w-{new}", VersionId(new), WorkerState.SLEEPING))
    assert f"penstock models pin {new}" in (await site.start(new)).text
    assert await site.shares() == {old: 10_000}


async def test_the_tick_publishes_the_share_at_once(site: Site) -> None:
    """The next table after the start leads a hundredth to the candidate."""
    (old,) = await site.shares()
    new = await site.version(like())
    await site.start(new)
    tick = await site.room.loop.tick()
    (route,) = tick.table.routes
    assert {share.version: share.weight for share in route.shares} == {old: 9900, new: 100}
