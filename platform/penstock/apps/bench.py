"""Composition root of ``penstock bench engine``: the worker's gate, with the platform's own key."""

import random
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from penstock.apps import keys, peers
from penstock.apps.settings import Settings
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import EngineError, InvalidField
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.keys import worker_secret
from penstock.steps.rounds import Room
from penstock.tls.identity import Role
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.measuring import BUSY, Measuring, refused

Api = Any
"""The operators' API: ``clients.operator.Operator``."""


async def measured(
    settings: Settings, api: Api, version: str, worker: str, most_s: float, note: Callable[[str], None]
) -> dict[str, Any]:
    """Return the curve of a version's running engine, in the API's form, and how it was measured."""
    engine = api.get(f"/models/{version}")["manifest"]["engine"]
    one = _ready(api.get("/workers")["workers"], version, worker)
    mutual = peers.mutual(settings, Role.GATEWAY, SystemClock())
    client = GateClient(
        url=one["url"],
        version=VersionId(version),
        ticket_key=worker_secret(keys.read(settings).platform[0], WorkerId(one["id"])),
        clock=SystemClock(),
        tls=partial(mutual.client, Role.WORKER) if mutual else None,
    )
    measuring = Measuring(client=client, clock=SystemClock(), chance=random.Random(1), note=note)
    try:
        blocks = (await client.numbers()).kv_blocks
        room = Room(
            max_seqs=engine["max_num_seqs"],
            max_model_len=engine["max_model_len"],
            kv_tokens=blocks * engine["block_size"],
        )
        found = await measuring.measure(room, most_s)
    except InvalidField as error:
        raise refused(error) from error
    except (OSError, EngineError) as error:
        raise CommandError(
            f"{one['id']} did not answer: {error}.", do="See penstock logs, and penstock status."
        ) from error
    return {
        "version": version,
        "worker": one["id"],
        "curve": asdict(found.curve),
        "steps": found.steps,
        "seconds": round(found.seconds, 1),
        "rounds": found.rounds,
        "is_whole": found.is_whole,
        "is_busy": found.curve.disturbed > BUSY,
    }


def _ready(workers: list[dict[str, Any]], version: str, name: str) -> dict[str, Any]:
    for one in workers:
        if one["version"] == version and one["state"] == WorkerState.READY and name in ("", one["id"]):
            return one
    which = f"worker {name} of {version}" if name else f"worker of {version}"
    raise CommandError(f"No {which} is ready.", do=f"penstock models scale {version} 1, then see penstock status.")
