"""The platform's own question to workers, over the real client to stub engines."""

import asyncio
import errno
import time

import pytest

from penstock.domain.models.model import Task
from penstock.domain.serving.probe import question
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import unseal
from penstock.domain.serving.transport import Exchange
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.gateway.dispatch.breaker import PASSES
from penstock.gateway.dispatch.records import FailureEvidence
from penstock.telemetry import names
from tests.support.engines.stub import Behaviour, Mode
from tests.support.gateways.breakers import origin
from tests.support.gateways.dispatch import Corridor, corridor, ticket_key, until


def suspect(way: Corridor, evidence: FailureEvidence = FailureEvidence.ANSWERED) -> None:
    """Let a request have failed at the first worker."""
    way.breakers.failed(way.workers[0].id, evidence, origin(), time.monotonic())


def is_out(way: Corridor) -> bool:
    """Tell whether the first worker is left alone."""
    workers = [worker.id for worker in way.workers]
    return workers[0] in way.breakers.ejected(workers, time.monotonic())


async def test_it_is_the_least_work_under_the_platforms_own_ticket() -> None:
    """One token of the platform's tenant, for the version's served name."""
    async with corridor(2) as way, way.probing():
        suspect(way)
        await until(lambda: way.counted(names.PROBES, reason="answered", outcome="passed") == 1)
        stats = way.stubs[0].stats
    assert stats.last_body == {"model": "toy@0123456789ab", "prompt": [1], "max_tokens": 1, "cache_salt": PLATFORM}
    ticket = unseal(stats.last_headers["x-penstock-ticket"], ticket_key(way.workers[0].id), time.time()).ticket
    assert (ticket.tenant, ticket.prompt_tokens) == (PLATFORM, 1)


def test_models_are_asked_for_what_they_are_for() -> None:
    """A model that embeds is asked to embed, one that generates for a token."""
    assert question(Task.EMBED)[0] is Api.EMBEDDINGS
    assert question(Task.GENERATE)[0] is Api.COMPLETIONS


@pytest.mark.parametrize(
    ("behaviour", "finding"),
    [
        (Behaviour(mode="error"), "failed"),
        (Behaviour(mode="reset"), "failed"),
        (Behaviour(mode="error", status=401), "failed"),
        (Behaviour(mode="error", status=503), "busy"),
        (Behaviour(mode="error", status=400), "passed"),
        (Behaviour(mode="freeze"), "failed"),
        (Behaviour(mode="freeze", still_s=0.05), "busy"),
        (Behaviour(mode="freeze", still_s=4.0), "failed"),
    ],
)
async def test_what_the_answer_means(behaviour: Behaviour, finding: str) -> None:
    """A refusal was read by an engine that lives; a full or busy one is no failure; silence is, where nothing moves."""
    async with corridor(2) as way, way.probing(timeout_s=0.1):
        way.stubs[0].behaviour = behaviour
        suspect(way)
        await until(lambda: way.counted(names.PROBES, outcome=finding) == 1)
        assert is_out(way) is (finding == "failed")


async def test_a_worker_that_drains_is_not_well_because_its_engine_answers() -> None:
    """A gateway that is deaf to tables led callers there again after each probe: its gate lets the platform in."""
    async with corridor(2) as way, way.probing():
        way.stubs[0].behaviour = Behaviour(mode="drain")
        suspect(way, FailureEvidence.CLOSED)  # a caller was refused
        await until(lambda: not is_out(way) or way.counted(names.PROBES, reason="half_open") == 2)
        assert (is_out(way), way.counted(names.PROBES, reason="half_open", outcome="closed")) == (True, 2)
        way.stubs[0].behaviour = Behaviour()
        await until(lambda: not is_out(way))


async def test_a_worker_that_is_gone_is_found_by_the_first_broken_connection() -> None:
    """One broken connection and a refused probe: out within milliseconds, where it took three callers' failures."""
    async with corridor(2) as way, way.probing():
        await way.stubs[0].stop()
        suspect(way, FailureEvidence.BROKEN)
        await until(lambda: way.counted(names.PROBES, outcome="closed") == 1)
        assert is_out(way)


async def test_an_engine_that_the_gate_knows_to_hang_is_found_at_once() -> None:
    """Where the gate says that nothing has moved for as long as a probe may take, the verdict does not wait for it."""
    async with corridor(2) as way, way.probing(timeout_s=30.0, look_s=0.01):
        way.stubs[0].behaviour = Behaviour(mode="freeze", still_s=31.0)
        suspect(way, FailureEvidence.SILENT)
        await until(lambda: way.counted(names.PROBES, reason="silent", outcome="failed") == 1)
        await until(lambda: way.stubs[0].stats.running == 0)
        assert is_out(way)


@pytest.mark.parametrize("mode", ["error", "freeze"])
async def test_a_worker_that_is_well_again_is_brought_back_by_a_probe(mode: Mode) -> None:
    """No caller is needed: the platform asks again until it is answered."""
    async with corridor(2) as way, way.probing(timeout_s=0.05):
        way.stubs[0].behaviour = Behaviour(mode=mode)
        suspect(way)
        await until(lambda: is_out(way))
        way.stubs[0].behaviour = Behaviour()
        await until(lambda: not is_out(way))
        assert way.counted(names.PROBES, reason="half_open", outcome="passed") == PASSES


async def test_a_caller_who_was_answered_meanwhile_shows_that_the_engine_works() -> None:
    """A probe that waits behind others in a full engine convicts nobody while callers are answered."""
    async with corridor(2) as way, way.probing(timeout_s=0.1):
        way.stubs[0].behaviour = Behaviour(mode="freeze")
        suspect(way)
        await until(lambda: way.stubs[0].stats.running == 1)
        way.breakers.succeeded(way.workers[0].id, time.monotonic())
        await until(lambda: way.counted(names.PROBES, outcome="busy") == 1)
        assert not is_out(way)


async def test_an_abandoned_probe_frees_the_engine() -> None:
    """A probe that is given up leaves nothing running, nor does a prober that ends."""
    async with corridor(2) as way:
        async with way.probing(timeout_s=30.0):
            way.stubs[0].behaviour = Behaviour(mode="freeze")
            suspect(way)
            await until(lambda: way.stubs[0].stats.running == 1)
        await asyncio.sleep(0)
        await until(lambda: way.stubs[0].stats.running == 0)


async def test_a_worker_that_nobody_reached_is_passed_over_until_the_probe_has_decided() -> None:
    """A connection that was not answered opens no circuit: the platform asks, and its answer counts."""
    async with corridor(2) as way, way.probing():
        suspect(way, FailureEvidence.UNREACHED)
        assert is_out(way)
        await until(lambda: way.counted(names.PROBES, reason="unreached", outcome="passed") == 1)
        assert not is_out(way)
        await way.stubs[0].stop()
        suspect(way, FailureEvidence.UNREACHED)
        await until(lambda: way.counted(names.PROBES, outcome="closed") >= 1)
        assert is_out(way)


async def test_want_of_a_socket_here_convicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway without files left says so of itself: its probe has no result, and the worker stays."""

    async def send(*_: object, **__: object) -> Exchange:
        raise OSError(errno.EMFILE, "too many open files")

    async with corridor(2) as way, way.probing() as prober:
        monkeypatch.setattr(type(prober.workers), "send", send)
        suspect(way)
        await until(lambda: way.counted(names.PROBES, outcome="busy") == 1)
        assert not is_out(way)


async def test_connections_for_probes_stay_open() -> None:
    """Each worker's is used now and then, so that a probe needs no handshake."""
    async with corridor(2) as way, way.probing(used_every_s=0.05):
        await until(lambda: all(stub.stats.connections for stub in way.stubs))
        connections = [stub.stats.connections for stub in way.stubs]
        suspect(way)
        await until(lambda: way.counted(names.PROBES, outcome="passed") == 1)
        await asyncio.sleep(0.2)
        assert [stub.stats.connections for stub in way.stubs] == connections
