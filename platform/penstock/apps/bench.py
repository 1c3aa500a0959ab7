"""Composition root of `penstock bench engine`: a client of a worker's gate, with the platform's own key."""

import random
from collections.abc import Callable
from functools import partial

from penstock.apps import keys, peers
from penstock.domain.clock import SystemClock
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import worker_secret
from penstock.settings import Settings
from penstock.tls.identity import Role
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.measuring import Measuring


def measuring(
    settings: Settings, version: VersionId, worker: WorkerId, url: str, note: Callable[[str], None]
) -> Measuring:
    clock = SystemClock()
    mutual = peers.mutual(settings, Role.GATEWAY, clock)
    client = GateClient(
        url=url,
        version=version,
        ticket_key=worker_secret(keys.read(settings).platform[0], worker),
        clock=clock,
        tls=partial(mutual.client, Role.WORKER) if mutual else None,
    )
    return Measuring(client=client, clock=clock, chance=random.Random(1), note=note)
