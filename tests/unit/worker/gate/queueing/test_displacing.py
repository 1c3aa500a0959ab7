"""A full engine that can take slots back: who may enter all the same."""

from functools import partial

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SLOTS = 16


class Full:
    """A queue before an engine that one tenant fills, with more waiting."""

    def __init__(self, *, preempts: bool = True, prompt: int = 32, blocks: int = 400) -> None:
        """Let the flood come."""
        size = EngineSize(
            max_seqs=SLOTS, kv_blocks=blocks, block_size=16, prefill_tokens=4096, watermark=0.0, preempts=preempts
        )
        self.queue: AdmissionQueue = AdmissionQueue(size, pace=1000.0)
        self.inside: list[str] = []
        for number in range(2 * SLOTS):
            self.ask("flood", number, prompt=prompt)

    def ask(self, tenant: str, number: int = 0, *, standing: Standing = Standing.PAID, prompt: int = 32) -> bool:
        """Bring a request; tell whether it entered at once."""
        work = Work(
            request=RequestId(f"{tenant}/{number}"),
            tenant=TenantId(tenant),
            standing=standing,
            weight=1.0,
            prompt_tokens=prompt,
            expected_output_tokens=16,
        )
        self.queue.arrive(work, 0.0, partial(self.inside.append, work.request), lambda *_: None)
        for request in self.inside:
            self.queue.slots.prefilled(RequestId(request))
        return work.request in self.inside


def test_a_newcomer_enters_an_engine_that_a_flood_has_filled() -> None:
    """C2: the first request of somebody else waits for no answer of a flood: a slot is taken back for it."""
    assert Full().ask("reader")
    assert not Full(preempts=False).ask("reader")


def test_kv_blocks_are_taken_back_as_well() -> None:
    """Where prompts have filled the KV cache long before the slots, a newcomer enters too."""
    full = Full(prompt=16 * 39, blocks=200)
    assert len(full.inside) < SLOTS / 2
    assert full.ask("reader", prompt=16 * 20)


def test_only_the_first_one_of_a_tenant_displaces() -> None:
    """Who has something inside waits for a slot as ever."""
    full = Full()
    assert full.ask("reader", 1)
    assert not full.ask("reader", 2)


def test_a_quarter_is_overbooked_at_most() -> None:
    """However many come, so many wait inside the engine and no more."""
    full = Full()
    for number in range(SLOTS):
        full.ask(f"reader-{number}")
    assert SLOTS < len(full.inside) <= SLOTS * 1.25


@pytest.mark.parametrize("standing", [one for one in Standing if one.is_spare])
def test_spare_work_displaces_nobody(standing: Standing) -> None:
    """What runs while nobody else waits takes nobody's slot."""
    assert not Full().ask("shadow", standing=standing)


def test_nobody_is_displaced_who_holds_no_more_than_its_share() -> None:
    """Where each slot is another tenant's, one more waits for its turn."""
    full = Full()
    full.queue, full.inside = AdmissionQueue(full.queue.slots.size, pace=1000.0), []
    for number in range(2 * SLOTS):
        full.ask(f"one-{number}")
    assert len(full.inside) <= SLOTS
    assert len(full.queue) >= SLOTS


def test_a_reader_s_tenth_question_enters_as_its_first() -> None:
    """C2: a flood that came alone is not ahead by the whole engine: whoever asks again and again enters."""
    full = Full(prompt=16 * 34, blocks=200)
    entered = []
    for number in range(10):
        entered.append(full.ask("reader", number))
        full.queue.leave(RequestId(f"reader/{number}"), 0.0)
    assert entered == [True] * 10
