"""Adapters on a real engine: loaded at first use, right beside their base, swapped without starving any."""

import threading
import time

from tests.integration.adapters.conftest import Known
from tests.support.patience import until
from tests.support.workers.process import WorkerProcess
from tests.support.workers.with_adapters import ask, ask_at_once, is_json, resident

REVIEW, CAPITAL = "Review: The printer stopped working.", "What is the capital of Japan?"


def test_an_adapter_is_loaded_by_its_first_request(worker: WorkerProcess, known: Known) -> None:
    """Its first request waits for it and is answered by it; from then on the worker reports it as resident."""
    assert known.json not in resident(worker)
    first = ask(worker, REVIEW, known.json)
    assert (first.status, is_json(first.text)) == (200, True), first
    until("the heartbeat names it", lambda: known.json in resident(worker))
    assert worker.metric("penstock_adapter_loads_total", outcome="ready") >= 1


def test_each_answers_as_itself_in_one_batch_with_its_base(worker: WorkerProcess, known: Known) -> None:
    """Twelve at once, two adapters and the base: none answers with another's weights."""
    for one in (known.json, known.pirate):
        ask(worker, CAPITAL, one)
    base = ask(worker, CAPITAL).text
    answers = ask_at_once(worker, [(CAPITAL, ""), (REVIEW, known.json), (CAPITAL, known.pirate)] * 4)
    assert [one.text for one in answers[0::3]] == [base] * 4
    assert all(is_json(one.text) for one in answers[1::3]), answers[1::3]
    assert all("yarr" in one.text for one in answers[2::3]), answers[2::3]


def test_no_adapter_waits_for_ever_beside_two_busy_ones(worker: WorkerProcess, known: Known) -> None:
    """While two adapters have staggered streams without a pause, requests for two others are answered within bounds."""
    adapters = (known.json, known.pirate, *known.others)
    for one in adapters:
        assert ask(worker, CAPITAL, one).status == 200
    over = threading.Event()

    def keep_busy(adapter: str) -> None:
        while not over.is_set():
            ask(worker, CAPITAL, adapter, max_tokens=40, tenant="busy")

    busy = [threading.Thread(target=keep_busy, args=(adapters[number % 2],)) for number in range(8)]
    for number, thread in enumerate(busy):
        thread.start()
        time.sleep(0.15 * (number % 3))
    try:
        others = [ask(worker, CAPITAL, one, max_tokens=4, tenant="other") for one in adapters[2:]]
    finally:
        over.set()
        for thread in busy:
            thread.join()
    assert [one.status for one in others] == [200, 200]
    assert max(one.seconds for one in others) < 30


def test_an_adapter_that_nobody_published_is_refused(worker: WorkerProcess) -> None:
    """An adapter that the store does not have is refused with its reason; the base goes on."""
    unknown = f"nobody@{'0' * 12}"
    refused = ask(worker, CAPITAL, unknown, seconds=100)
    assert (refused.status, refused.refused) == (503, "adapter")
    assert "0 signed versions" in refused.text
    assert ask(worker, CAPITAL).status == 200
