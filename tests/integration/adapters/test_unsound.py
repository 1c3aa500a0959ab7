"""Unsound adapters, and workers that die beside them: no effect on others."""

import os
import signal
import threading
import time
from contextlib import suppress

import httpx
import pytest

from tests.integration.adapters.conftest import Known
from tests.support.models.trained_adapters import changed
from tests.support.patience import until
from tests.support.workers.process import WorkerMaker, WorkerProcess
from tests.support.workers.with_adapters import JSON_GOLDEN, Site, ask, ask_at_once, is_json, resident

REVIEW, CAPITAL = "Review: The printer stopped working.", "What is the capital of Japan?"


def refused(worker: WorkerProcess, adapter: str) -> str:
    """Ask an adapter that is refused; return the reason."""
    said = ask(worker, REVIEW, adapter)
    assert (said.status, said.refused) == (503, "adapter"), said
    return said.text


def test_adapters_that_are_not_sound_are_refused_and_nobody_else_notices(
    worker: WorkerProcess, site: Site, known: Known
) -> None:
    """NaN, numbers that overflow, another base, wrong golden answers: refused in words; others answer as before."""
    base = ask(worker, CAPITAL).text
    spoiled = changed(
        site.trained("triage"), site.work / "nan", lambda name, one: one * float("nan") if "layers.3." in name else one
    )
    huge = changed(site.trained("triage"), site.work / "huge", lambda _, one: one * 0 + 1e36, lora_alpha=8)
    bad = {
        site.publish("huge", huge): "may multiply its input",
        site.publish("nan", spoiled, [JSON_GOLDEN]): "NaN",
        site.publish("foreign", site.like("triage", "foreign"), [JSON_GOLDEN], base="f" * 64): "made for ffffffffffff",
        site.publish("liar", site.like("pirate", "liar"), [JSON_GOLDEN]): "golden prompt 1 of 1",
    }
    for adapter, why in bad.items():
        assert why in refused(worker, adapter)
    assert not set(bad) & set(resident(worker))
    answers = ask_at_once(worker, [(CAPITAL, ""), (REVIEW, known.json)] * 3)
    assert [one.text for one in answers[0::2]] == [base] * 3
    assert all(is_json(one.text) for one in answers[1::2])
    assert worker.metric("penstock_adapter_loads_total", outcome="refused") >= 3


def test_what_was_altered_in_the_store_is_refused(worker: WorkerProcess, site: Site) -> None:
    """One byte of a stored blob is another one: its digest tells, before anything is loaded."""
    folder = site.like("triage", "altered", 0.5)
    adapter = site.publish("altered", folder, [JSON_GOLDEN])
    weights = next(one for one in site.manifest("altered", folder, [JSON_GOLDEN]).files if "model" in one.path)
    blob = next(one for one in site.settings.paths.artifacts.rglob(weights.sha256) if one.is_file())
    raw = bytearray(blob.read_bytes())
    raw[-1] ^= 1
    blob.chmod(0o600)
    blob.write_bytes(bytes(raw))
    assert "SHA-256" in refused(worker, adapter)


@pytest.mark.slow
def test_a_store_that_is_away_at_first_use_is_asked_again(worker: WorkerProcess, site: Site) -> None:
    """Callers hear the reason meanwhile; once the store is back, so is the adapter, and its base was there all the
    time.
    """
    adapter = site.publish("away", site.like("triage", "away"), [JSON_GOLDEN])
    store = site.settings.paths.artifacts
    aside = store.with_name("aside")
    store.rename(aside)
    try:
        assert refused(worker, adapter)
        assert ask(worker, CAPITAL).status == 200
    finally:
        aside.rename(store)
    until("it is served", lambda: ask(worker, REVIEW, adapter).status == 200, within_s=90, every_s=3.0)


@pytest.mark.slow
def test_adapters_outlive_their_engine_and_their_worker(
    worker: WorkerProcess, start_worker: WorkerMaker, site: Site, known: Known
) -> None:
    """Engine killed: what was resident is back unasked; worker killed while it loads: the next one serves."""
    fresh = site.publish("fresh", site.like("triage", "fresh"), [JSON_GOLDEN])
    assert ask(worker, REVIEW, known.json).status == 200
    until("it is reported", lambda: known.json in resident(worker))
    restarts = worker.report["restarts"]
    os.kill(worker.engine_pid, signal.SIGKILL)
    until("it is lost", lambda: worker.report["restarts"] == restarts + 1)
    until("it is back", lambda: known.json in resident(worker), within_s=90)
    dying = threading.Thread(target=lambda: _asked(worker, fresh))
    dying.start()
    time.sleep(0.1)
    assert worker.process is not None
    worker.process.kill()
    dying.join()
    assert is_json(ask(start_worker().ready(), REVIEW, fresh).text)


def _asked(worker: WorkerProcess, adapter: str) -> None:
    with suppress(httpx.HTTPError):
        ask(worker, REVIEW, adapter, seconds=10)
