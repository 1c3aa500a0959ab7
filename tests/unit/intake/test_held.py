import asyncio
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import IdempotencyMismatch, OverLimit, Overloaded, PenstockError
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Call
from penstock.gateway.calls.demand import Demand
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.early_limits import BARRED_S, MOST_REMEMBERED, REMEMBERED_S, EarlyLimits
from penstock.gateway.openai.reading import INLINE_BYTES
from penstock.intake.held import Intake
from penstock.intake.share import SharedRoom
from tests.support.gateways.dispatch import until
from tests.support.gateways.server import Client, code, on_uvloop
from tests.support.gateways.toy import REQUEST, head, running

ACME, BOB = TenantId("acme"), TenantId("bob")


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 40))))
def test_who_takes_leaves_as_much_free_as_it_holds(taken: list[tuple[str, int]]) -> None:
    """However many press in, there is room for one more."""
    room = SharedRoom(100)
    for who, units in taken:
        if room.take(who, units):
            assert 100 - room.used >= room.held(who)
    assert room.used < 100


@given(st.integers(1, 9))
def test_callers_that_press_alike_have_equal_parts_and_leave_one(callers: int) -> None:
    """One may fill a half, two a third each, and so on: nobody can fill it alone, nor all of them together."""
    room = SharedRoom(1000)
    for one in list(range(callers)) * 1000:
        room.take(str(one), 1)
    parts = [room.held(str(one)) for one in range(callers)]
    assert max(parts) - min(parts) <= 1
    assert max(parts) <= 1000 - room.used <= max(parts) + callers


@given(st.lists(st.integers(1, 30)))
def test_what_was_taken_can_be_given_back(taken: list[int]) -> None:
    """Nothing stays behind."""
    room = SharedRoom(100)
    got = [units for units in taken if room.take("a", units)]
    for units in got:
        room.give("a", units)
    assert (room.used, room.held("a")) == (0, 0)


def test_a_tenant_that_fills_its_part_is_told_so_and_another_is_served() -> None:
    """Finding 12: 120 connections of one key held a gigabyte."""
    intake = Intake(total_bytes=1000)
    full = intake.begin(ACME)
    full.grow(500)
    with pytest.raises(OverLimit) as caught:
        intake.begin(ACME).grow(1)
    assert (caught.value.reason, caught.value.retry_after_s) == ("tenant_bytes", 1.0)
    other = intake.begin(BOB)
    other.grow(250)
    with pytest.raises(Overloaded):
        intake.begin(TenantId("carol")).grow(126)
    for held in (full, other, full):
        held.release()
    assert intake.held_bytes == 0


@on_uvloop
async def test_bodies_that_never_end_are_bounded_together() -> None:
    """Finding 12: what has come is counted while it comes, and given back when its sender leaves."""
    intake = Intake(total_bytes=1 << 20)
    async with running(change=lambda edge: replace(edge, intake=intake)) as gateway:
        clients = [await Client.to(gateway) for _ in range(12)]
        for client in clients:
            client.send(head(length=1 << 20) + b" " * (200 << 10))
        answers = [asyncio.create_task(client.head()) for client in clients]
        await until(lambda: sum(answer.done() for answer in answers) >= 8)
        assert {answer.result()[0] for answer in answers if answer.done()} == {429}
        assert intake.held_bytes <= 1 << 19
        for client in clients:
            await client.close()
        await until(lambda: intake.held_bytes == 0)
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)


@on_uvloop
async def test_who_is_over_its_limits_need_not_send_its_body() -> None:
    """Finding 6: the refusal comes while the body is still to come; a small one is answered as before."""
    asked: list[str] = []

    async def refuse(who: Principal, model: str, demand: Demand) -> None:
        asked.append(model)
        raise OverLimit("no more", retry_after_s=7.0)

    async with running(change=lambda edge: replace(edge, refuse_early=refuse)) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.response())[0] == 200
        client.send(head(length=1 << 20))
        status, headers, body = await client.response()
        assert (status, code(body), headers["retry-after"]) == (429, "rate_limit_exceeded", "7")
        assert asked == [""]
        await client.close()


@on_uvloop
async def test_a_large_body_is_refused_by_the_model_that_it_names() -> None:
    """Finding 6: a caller that may ask several models is refused for the one that it has used up, before parsing."""
    asked: list[str] = []

    async def refuse(who: Principal, model: str, demand: Demand) -> None:
        asked.append(model)
        if model == "m":
            raise OverLimit(retry_after_s=7.0)

    async with running(change=lambda edge: replace(edge, refuse_early=refuse)) as gateway:
        client = await Client.to(gateway)
        body = REQUEST[:-1] + b',"x":[' + b"[" * 9 + b"]" * 9 + b" " * INLINE_BYTES + b"]}"
        client.send(head(length=len(body)) + body)
        assert (await client.response())[0] == 429
        assert asked == ["", "m"]
        await client.close()


@on_uvloop
async def test_a_fresh_idempotency_key_is_no_way_around_the_limits() -> None:
    """Finding C10: only a key that has a record lets a caller over its limit send its body."""
    told: list[str] = []

    async def refuse(who: Principal, model: str, demand: Demand) -> None:
        raise OverLimit(retry_after_s=7.0)

    async def is_recorded(who: Principal, key: str) -> bool:
        told.append(f"{who.tenant} {key}")
        return key == "old"

    async with running(change=lambda edge: replace(edge, refuse_early=refuse, is_recorded=is_recorded)) as gateway:
        body = REQUEST + b" " * INLINE_BYTES
        client = await Client.to(gateway)
        client.send(head(b"idempotency-key: old", length=len(body)) + body)
        assert (await client.response())[0] == 200, "a record costs nothing"
        assert set(told) == {"acme old"}
        client.send(head(b"idempotency-key: fresh", length=1 << 20))
        assert (await client.response())[0] == 429, "its body was not waited for"
        await client.close()


@on_uvloop
async def test_a_record_lets_nobody_send_other_bodies() -> None:
    """One recorded key let a caller over its limits send large body after large body: each was read and parsed."""
    read: list[bytes] = []

    async def refuse(who: Principal, model: str, demand: Demand) -> None:
        raise OverLimit(retry_after_s=7.0)

    async def is_recorded(who: Principal, key: str) -> bool:
        return True

    async def serve(call: Call, reply: Reply) -> None:
        read.append(b"")
        raise IdempotencyMismatch(param="idempotency-key")

    change = partial(replace, refuse_early=refuse, is_recorded=is_recorded)
    async with running(serve, change=change) as gateway:
        statuses = []
        for _ in range(4):
            client = await Client.to(gateway)
            body = REQUEST + b" " * INLINE_BYTES
            client.send(head(b"idempotency-key: old", length=len(body)) + body)
            statuses.append((await client.response())[0])
            await client.close()
    assert (statuses, len(read)) == ([422, 429, 429, 429], 1)


def test_passes_are_for_two_at_a_time_and_come_back() -> None:
    """A tenant's replays are served side by side; only a body that was none bars the next ones, for a while."""
    looks = EarlyLimits()
    assert [looks.take_pass(ACME, 0.0) for _ in range(3)] == [True, True, False]
    assert looks.take_pass(BOB, 0.0)
    looks.give_pass(ACME, 1.0, was_of_use=True)
    assert looks.take_pass(ACME, 1.0)
    looks.give_pass(ACME, 2.0, was_of_use=False)
    assert [looks.take_pass(ACME, now) for now in (2.0, 2.0 + BARRED_S)] == [False, True]


@on_uvloop
async def test_who_was_refused_is_asked_first() -> None:
    """Hundreds of short inputs of a caller over its limits were parsed and tokenised before the limits said no."""
    asked: list[str] = []

    async def refuse(who: Principal, model: str, demand: Demand) -> None:
        asked.append(model)
        raise OverLimit(retry_after_s=7.0)

    async def serve(call: Call, reply: Reply) -> None:
        raise OverLimit(retry_after_s=7.0)

    async with running(serve, change=lambda edge: replace(edge, refuse_early=refuse)) as gateway:
        client = await Client.to(gateway)
        for _ in range(3):
            client.send(head() + REQUEST)
            assert (await client.response())[0] == 429
        await client.close()
        assert (asked, len(gateway.toy.seen.calls)) == (["m", "m"], 1)


def test_a_refusal_is_remembered_for_a_while_and_of_a_bounded_number() -> None:
    """Whoever keeps within its limits again is read as everybody else."""
    looks = EarlyLimits()
    for number in range(MOST_REMEMBERED + 1):
        looks.refused(KeyId(str(number)), 0.0)
    assert not looks.comes_first(KeyId("0"), 0.0), "the oldest was forgotten"
    assert looks.comes_first(KeyId("1"), REMEMBERED_S - 0.1)
    assert not looks.comes_first(KeyId("1"), REMEMBERED_S)


def test_the_refusals_are_ones_of_the_published_table() -> None:
    """Both are errors that say when to come back."""
    for kind in (OverLimit, Overloaded):
        assert issubclass(kind, PenstockError)
