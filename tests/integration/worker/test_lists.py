"""A list of prompts takes a share of a real engine: it is answered whole, and others are answered beside it."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats.report import decode
from tests.support.patience import until
from tests.support.workers.process import TicketMaker, WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

EMBEDDINGS = "/v1/embeddings"
TEXT = "a few words of a text that is not short " * 5


def embed(
    encoder: WorkerProcess,
    name: str,
    inputs: int,
    *,
    timeout: float = 300.0,
    standing: Standing = Standing.PAID,
    yields: bool = False,
) -> httpx.Response:
    """Ask for vectors of this number of different texts."""
    body = {"model": encoder.version, "input": [f"{number} {TEXT}" for number in range(inputs)]}
    maker = TicketMaker(request=name, tenant=name, seconds=300.0, inputs=inputs, standing=standing, yields=yields)
    return encoder.post(EMBEDDINGS, body, maker, timeout=timeout)


def came(encoder: WorkerProcess, name: str, wait_s: float = 0.0) -> tuple[int, bool]:
    """Return how many prompts of a request have entered the engine, and whether it is over."""
    body = {"requests": [name], "wait_s": wait_s}
    told = encoder.post("/penstock/usage", body, TicketMaker(tenant=PLATFORM)).json().get(name)
    return (told["prompts"], told["is_final"]) if told else (0, False)


@pytest.mark.parametrize(("standing", "yields"), [*((one, False) for one in Standing), (Standing.BATCH, True)])
def test_every_priority_class_gets_its_vectors(encoder: WorkerProcess, standing: Standing, *, yields: bool) -> None:
    """An interactive or strict request tells vLLM's scheduler so, among arguments that only generation has."""
    answer = embed(encoder, f"{standing.name.lower()}-{yields}", 2, standing=standing, yields=yields)
    assert answer.status_code == 200, answer.text


def test_a_neighbour_is_answered_beside_a_list(encoder: WorkerProcess) -> None:
    """One list of inputs took the whole engine, and more than 256 were a 503: a neighbour's one input passes 300."""
    with ThreadPoolExecutor() as pool:
        listed = pool.submit(embed, encoder, "list", 300)
        until("the list has begun", lambda: came(encoder, "list")[0] > 0, within_s=60.0)
        alone = embed(encoder, "neighbour", 1)
        prompts, is_over = came(encoder, "list")
        assert alone.status_code == 200, alone.text
        assert not is_over
        assert prompts < 150
        answer = listed.result()
    assert answer.status_code == 200, answer.text
    assert [one["index"] for one in answer.json()["data"]] == list(range(300))
    told = decode(answer.headers["x-penstock-report"].encode()).used
    assert told is not None
    assert (told.prompts, told.prompt_tokens) == (300, answer.json()["usage"]["prompt_tokens"])


def test_a_list_whose_caller_left_goes_no_further(encoder: WorkerProcess) -> None:
    """Two hundred inputs of a departed caller kept a neighbour waiting for 22 s: the waiting ones never enter."""
    with pytest.raises(httpx.ReadTimeout):
        embed(encoder, "leaver", 2000, timeout=3.0)
    until("it is over", lambda: came(encoder, "leaver", 5.0)[1], within_s=60.0)
    prompts, _ = came(encoder, "leaver")
    assert prompts < 2000
    assert embed(encoder, "next", 1).status_code == 200
    assert came(encoder, "leaver") == (prompts, True)
