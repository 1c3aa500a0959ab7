import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.intake.addresses import PATIENCE_S, Addresses
from penstock.intake.limits import Limits
from tests.support.gateways.server import Client, on_uvloop
from tests.support.gateways.toy import REQUEST, head, running


@given(st.lists(st.sampled_from("abc"), max_size=60), st.sets(st.sampled_from("abc")))
def test_no_address_takes_them_all(arriving: list[str], known: set[str]) -> None:
    """Whoever comes, and however often, leaves room for an address that was not there yet."""
    addresses: Addresses[int] = Addresses(40)
    for address in known:
        addresses.prove(address)
    staying = 0
    for number, address in enumerate(arriving):
        stays, _ = addresses.enter(address, number, now=0.0)
        staying += stays
        if not stays:
            addresses.leave(address, number)
    assert staying < 40
    assert addresses.enter("newcomer", -1, now=0.0)[0]


def test_callers_behind_one_address_have_most_of_all() -> None:
    """A gateway of the caller's own stands behind one address: once a valid key came from it, that is no attack."""
    addresses: Addresses[int] = Addresses(100)
    addresses.prove("theirs")
    assert [addresses.enter("theirs", number, 0.0)[0] for number in range(80)] == [True] * 80


def test_the_oldest_that_asks_nothing_gives_way_to_the_next_of_its_address() -> None:
    """Finding 12: who shares an address with half requests gets in; what has just come is left its moment."""
    addresses: Addresses[int] = Addresses(10)
    for number in range(5):
        assert addresses.enter("shared", number, now=float(number))[0]
    addresses.spoke("shared", 0)
    assert addresses.enter("shared", 5, now=1.5) == (False, None)
    addresses.leave("shared", 5)
    assert addresses.enter("shared", 6, now=1.0 + PATIENCE_S) == (True, 1)


@on_uvloop
async def test_half_requests_of_one_address_shut_nobody_else_out() -> None:
    """Finding 12: 4,100 half requests of one address were a 503 for everybody for ten seconds."""
    async with running(limits=Limits(connections=20)) as gateway:
        half = [
            await asyncio.open_connection("127.0.0.1", gateway.port, local_addr=("127.0.0.2", 0)) for _ in range(30)
        ]
        for _, writer in half:
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n")
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.response())[0] == 200
        await client.close()
        for _, writer in half:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
