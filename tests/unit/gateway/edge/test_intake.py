import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import OverLimit, Overloaded, PenstockError
from penstock.domain.ids import TenantId
from penstock.domain.tenant import Principal
from penstock.gateway.edge.intake import Intake
from penstock.gateway.edge.reading import INLINE_BYTES
from penstock.gateway.edge.share import SharedRoom
from tests.support.corridor import until
from tests.support.edge_client import Client, code, on_uvloop
from tests.support.toy_gateway import REQUEST, head, running

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

    async def refuse(who: Principal, model: str) -> None:
        asked.append(model)
        raise OverLimit("no more", retry_after_s=7.0)

    async with running(change=lambda edge: replace(edge, refuse_early=refuse)) as gateway:
        client = await Client.to(gateway)
        client.send(head(length=1 << 20))
        status, headers, body = await client.response()
        assert (status, code(body), headers["retry-after"]) == (429, "rate_limit_exceeded", "7")
        await client.close()
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.response())[0] == 200
        assert asked == [""]
        await client.close()


@on_uvloop
async def test_a_large_body_is_refused_by_the_model_that_it_names() -> None:
    """Finding 6: a caller that may ask several models is refused for the one that it has used up, before parsing."""
    asked: list[str] = []

    async def refuse(who: Principal, model: str) -> None:
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

    async def refuse(who: Principal, model: str) -> None:
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


def test_the_refusals_are_ones_of_the_published_table() -> None:
    """Both are errors that say when to come back."""
    for kind in (OverLimit, Overloaded):
        assert issubclass(kind, PenstockError)
