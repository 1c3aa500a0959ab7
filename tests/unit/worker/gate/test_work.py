"""A ticket's cost at the gate: what the queue books, and what no request may have of one engine."""

import asyncio
from dataclasses import replace

import pytest

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.work import excess, work_of
from tests.support.clock import ManualClock
from tests.support.patience import patient
from tests.unit.worker.gate.test_corridor import CONFIG, TICKET, Client, Engine

SIZE = EngineSize(max_seqs=32, kv_blocks=100, block_size=16)


def ticket(**changes: int) -> Ticket:
    plain = Ticket(
        request=RequestId("r"),
        tenant=TenantId("t"),
        standing=Standing.PAID,
        weight=1,
        deadline_at=0.0,
        prompt_tokens=100,
        expected_output_tokens=64,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (ticket(), ""),
        (ticket(sequences=16, expected_output_tokens=16 * 64), ""),
        (
            ticket(sequences=17, expected_output_tokens=17 * 64),
            "17 sequences at once, of which one request may have 16",
        ),
        (ticket(prompts=10, sequences=10, prompt_tokens=1700), ""),
        (ticket(prompts=10, sequences=10, prompt_tokens=4400), "KV cache for 1792 tokens"),
        (ticket(prompts=2048, sequences=2048, prompt_tokens=400_000, expected_output_tokens=0), ""),
    ],
)
def test_more_than_a_part_of_the_engine_is_told(asked: Ticket, words: str) -> None:
    """Finding 1: the gate knows the engine's own numbers, and says which of them a request exceeds."""
    told = excess(asked, work_of(asked, asked.request, SIZE, clocks_apart=0.0, now=0.0), SIZE)
    assert told.startswith(words)
    assert bool(words) == bool(told)


def test_the_door_books_what_the_ticket_says() -> None:
    """Sequences are slots and work of CPUs is charged."""
    choices = work_of(ticket(sequences=8, work_tokens=500), RequestId("r"), SIZE, clocks_apart=0.0, now=0.0)
    assert (choices.sequences, choices.prompts, choices.cost) == (8, 1, 100 + 500 + 2 * 64)


@pytest.mark.parametrize(
    ("asked", "booked", "blocks"),
    [
        (ticket(prompts=64, sequences=64, prompt_tokens=64 * 100, expected_output_tokens=0), (4, 4), 4 * 7),
        (ticket(prompts=16, sequences=16, prompt_tokens=16 * 96, expected_output_tokens=16 * 32), (4, 4), 4 * 8),
        (ticket(prompts=3, sequences=6, prompt_tokens=3 * 96, expected_output_tokens=6 * 32), (2, 4), 2 * 6 + 4 * 2),
        (ticket(prompts=2, sequences=16, prompt_tokens=2 * 96, expected_output_tokens=16 * 32), (1, 8), 6 + 8 * 2),
        (ticket(prompts=2, sequences=2, prompt_tokens=2 * 96, expected_output_tokens=2 * 32), (2, 2), 2 * 8),
        (ticket(prompts=2048, sequences=2048, prompt_tokens=2048 * 96, expected_output_tokens=0), (4, 4), 4 * 6),
    ],
)
def test_a_list_of_prompts_books_a_few_and_is_charged_whole(
    asked: Ticket, booked: tuple[int, int], blocks: int
) -> None:
    """A list of prompts took every slot: it holds those of an eighth of the engine, or of one prompt's choices."""
    work = work_of(asked, asked.request, SIZE, clocks_apart=0.0, now=0.0)
    assert (work.prompts, work.sequences) == booked
    assert SIZE.blocks_of(work, work.expected_output_tokens) == blocks
    assert work.cost == asked.prompt_tokens + 2 * asked.expected_output_tokens


async def test_the_gate_is_the_second_wall(clock: ManualClock) -> None:
    """A request that a gateway with an old table lets through is a 400 in plain words, and never waits for a slot."""
    engine = Engine()
    client = Client(Gate(engine, replace(CONFIG, max_num_seqs=8), clock))
    async with asyncio.timeout(patient(1.0)):
        await client.call(ticket=replace(TICKET, sequences=5))
    assert (client.status, client.headers["x-penstock-refused"]) == (400, "too_large")
    error = client.body["error"]
    assert isinstance(error, dict)
    assert "5 sequences at once, of which one request may have 4" in error["message"]
    assert (engine.paths, len(client.gate.queue)) == ([], 0)
