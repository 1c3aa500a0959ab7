"""The text of a match is kept sealed for a tenant that wants it, and for nobody else."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from penstock.domain.serving.request import Sealed
from penstock.domain.tenancy.tenant import Plan
from penstock.filters import evidence, shipped
from penstock.filters.errors import PromptFiltered
from penstock.filters.evidence import MatchText, SealedText
from penstock.filters.intervention import Intervention
from penstock.filters.pack import strictest
from penstock.gateway.safety.interventions import Interventions, KeptTexts, TextDropped, dropping
from penstock.gateway.safety.stage import ScreenedRequests
from penstock.sealing.segments import Unreadable
from penstock.telemetry.metrics import Metrics
from tests.support.gateways.dispatch import UNASKED, FakeReply
from tests.support.samples.calls import call
from tests.support.samples.interventions import intervention
from tests.support.sealing import FixedKeys, KeysAway, fixed

SECRET, MAIL = "AKIAIOSFODNN7EXAMPLE", "jane@example.com"
KEEPS = Plan(keep_matches_s=3600.0)
POLICY = strictest([shipped.pack("secrets"), shipped.pack("pii")])


class House:
    """The stage and what its spool would have got."""

    def __init__(self, keys: FixedKeys | None = None) -> None:
        self.keys, self.told, self.kept = keys or FixedKeys(), list[Intervention](), list[SealedText]()
        self.tasks = list[asyncio.Task[None]]()
        self.metrics = Metrics()
        drop = dropping(self.metrics)
        texts = KeptTexts(self.kept.append, lambda work: self.tasks.append(asyncio.ensure_future(work)), drop)
        texts.open(self.keys)
        seen = Interventions(self.metrics, self.told.append, lambda: 9.0, texts)
        self._stage = ScreenedRequests(lambda _: POLICY, seen.record, UNASKED)

    async def prompt(self, text: str, plan: Plan, **named: object) -> None:
        with pytest.raises(PromptFiltered):
            await self._stage.screen(call(plan=plan, body={"prompt": text, **named}), FakeReply())
        await asyncio.gather(*self.tasks)

    async def answer(self, *parts: str, plan: Plan, stream: bool = True) -> None:
        body = {"messages": [], "temperature": 0}
        guard = await self._stage.screen(call(plan=plan, body=body, stream=stream), FakeReply())
        guard.start(200, [])
        name = "delta" if stream else "message"
        for part in parts:
            said = json.dumps({"choices": [{"index": 0, name: {"content": part}}]})
            guard.write(f"data: {said}\n\n".encode() if stream else said.encode())
        guard.finish()
        await asyncio.gather(*self.tasks)

    async def texts(self) -> dict[str, str]:
        """Return rules and the texts that they matched."""
        rules = {(one.request, one.number): one.rule for one in self.told}
        return {rules[one.request, one.number]: (await self.opened(one)).text for one in self.kept}

    async def opened(self, one: SealedText) -> MatchText:
        return evidence.opened(one, await self.keys.opening(one.tenant, evidence.header(one)))


async def test_a_tenant_that_keeps_none_has_none() -> None:
    """By default, and without retention, an intervention has no text."""
    house = House()
    for plan in (Plan(), replace(KEEPS, zero_retention=True)):
        await house.prompt(f"what is {SECRET}?", plan)
        await house.answer("it is AKIA", SECRET[4:], " ok", plan=plan)
    assert (len(house.told), house.kept) == (4, [])


async def test_the_match_alone_is_kept_until_its_time() -> None:
    """Of prompts, streams and whole answers: the match, nothing around it, sealed."""
    house = House()
    await house.prompt(f"what is {SECRET}?", KEEPS)
    assert await house.texts() == {"aws-key": SECRET}
    for stream, parts in ((True, ["to jane@exa", "mple.com and", " on"]), (False, [f"to {MAIL} and on"])):
        house = House()
        await house.answer(*parts, plan=KEEPS, stream=stream)
        assert await house.texts() == {"email": MAIL}
        (kept,) = house.kept
        assert (kept.at, kept.keep_until) == (9.0, 9.0 + 3600.0)
        assert MAIL.encode() not in kept.sealed
        with pytest.raises(Unreadable):
            evidence.opened(replace(kept, number=kept.number + 1), house.keys.secrets)


async def test_without_a_key_no_text_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The intervention stays, and what is logged has no text."""
    house = House(KeysAway())
    with caplog.at_level(logging.DEBUG):
        await house.prompt(f"what is {SECRET}?", KEEPS)
    assert (len(house.told), house.kept, SECRET in caplog.text) == (1, [], False)
    (counted,) = [one for one in house.metrics.registry.collect() if one.name == "penstock_safety_match_texts_dropped"]
    totals = {one.labels["outcome"]: one.value for one in counted.samples if one.name.endswith("_total")}
    assert totals == {TextDropped.NO_KEY: 1.0, TextDropped.FULL: 0.0}


@pytest.mark.parametrize(
    ("named", "users"),
    [
        ({}, []),
        ({"user": "jane", "safety_identifier": "j1"}, ["j1", "jane"]),
        ({"metadata": {"user_id": "jane", "team": "x"}, "user": ""}, ["jane"]),
        ({"user": "j" * 257}, None),
        ({"metadata": Sealed(b"{}", items=1, is_text=False)}, None),
    ],
)
async def test_with_a_text_its_users_are_sealed(named: dict[str, object], users: list[str] | None) -> None:
    """Of each API; if a name is too long to be kept, anybody may be meant."""
    house = House()
    await house.prompt(f"what is {SECRET}?", KEEPS, **named)
    (text,) = [await house.opened(one) for one in house.kept]
    assert (text.users if text.users is None else sorted(text.users)) == users
    assert b"jane" not in house.kept[0].sealed


def test_of_a_long_match_the_beginning_is_kept() -> None:
    """A phrase with a thousand blanks fills no row."""
    users = ("🜁" * 256,) * 3
    text = evidence.sealed(intervention(), MatchText("🜁" * 5_000, users), fixed(b"k" * 32), 60.0)
    assert len(text.sealed) < 8_192
    assert evidence.opened(text, [b"k" * 32]) == MatchText("🜁" * 1_024, users)
