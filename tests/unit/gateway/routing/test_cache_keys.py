"""``prompt_cache_key`` as a wish for the same worker: within a tenant, and only between equal workers."""

import random
from dataclasses import replace

from penstock.domain.fleet.table import RoutingTable, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.request import Prepared
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.route import KEY_TOKENS, WorkerRouter
from penstock.gateway.routing.selection import RouterSettings
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION, arrived, principal

WORKERS = tuple(WorkerEntry(id=WorkerId(f"w{n}"), url=f"http://w{n}", state=WorkerState.READY) for n in range(4))
ENTRY = replace(VERSION, workers=WORKERS)
SHORT = Prepared(prompt_tokens=20)


def router() -> WorkerRouter:
    """Return a router over four equal workers."""
    table = CurrentTable()
    made = WorkerRouter(
        table=table,
        health=Breakers(random.Random(0)),
        clock=ManualClock(),
        chance=random.Random(1),
        settings=RouterSettings(),
        metrics=Metrics(),
    )
    table.swap(RoutingTable(number=1, made_at=0.0, versions=(ENTRY,)), 0.0)
    return made


def with_key(key: str, salt: str = "salt") -> Prepared:
    """Return the prompt as a call of this tenant and key has it."""
    call = arrived(cache_key=key)
    call = replace(call, principal=principal(cache_salt=salt))
    return call.chosen(ENTRY, SHORT).prepared


def picked(made: WorkerRouter, prepared: Prepared) -> WorkerId:
    return made.pick(ENTRY, prepared, lambda _: None, frozenset()).id


def test_one_key_stays_at_one_worker() -> None:
    """Requests without a key are spread over equal workers, those with one go to the first one's."""
    made = router()
    first = picked(made, with_key("tools-v1"))
    assert {picked(made, with_key("tools-v1")) for _ in range(30)} == {first}
    assert len({picked(made, SHORT) for _ in range(30)}) == len(WORKERS)


def test_two_tenants_with_one_key_never_meet() -> None:
    """The key is a tenant's own word: another tenant's hash is another one, and so is its worker, by chance."""
    assert with_key("k", "one").affinity != with_key("k", "other").affinity
    made = router()
    first = picked(made, with_key("k", "one"))
    others = {picked(made, with_key("k", f"tenant-{n}")) for n in range(30)}
    assert others - {first}


def test_a_busy_worker_loses_the_key() -> None:
    """A key is worth some hundred tokens of waiting, so no key makes a worker hot."""
    made = router()
    first = picked(made, with_key("k"))
    made.dispatched(first, 16 * KEY_TOKENS)
    assert picked(made, with_key("k")) != first


def test_known_blocks_count_more_than_a_key() -> None:
    """The worker that holds the prompt's beginning has it, whatever the key's last worker was."""
    made = router()
    holder = picked(made, Prepared(prompt_tokens=64, blocks=(1, 2, 3, 4)))
    for n in range(8):
        picked(made, with_key(f"k{n}"))
        asked = replace(with_key(f"k{n}"), blocks=(1, 2, 3, 4))
        assert picked(made, asked) == holder


def test_no_key_no_affinity() -> None:
    """A request that names none costs no hash and no entry."""
    assert arrived().chosen(ENTRY, SHORT).prepared is SHORT
