"""Fleets of any size, made up: what a gateway and a controller know of them."""

import random
from dataclasses import replace

from penstock.domain.clock import SystemClock
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, RoutingTable, Share, VersionEntry, WorkerEntry
from penstock.domain.fleet.versions import Catalogue, Deployment, Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import Alias, ModelName, VersionId, WorkerId
from penstock.domain.models.model import Manifest, ModelVersion, Provenance, Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.choosing import Choosing
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.selection import RouterSettings, SampleSettings
from penstock.telemetry.metrics import Metrics

PRICE = Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(1))
STARTED = tuple(PhaseTiming(phase=phase, seconds=3.0) for phase in (WorkerState.LOADING, WorkerState.WARMING))
ZONES = "abc"


def table(size: int, number: int = 1, adapters: int = 0) -> RoutingTable:
    """Return a table with one version of this many workers, and this many adapters of it, each held by two of them."""
    version = VersionEntry(
        id=VersionId("m0@0123456789ab"),
        digest="0" * 64,
        task=Task.GENERATE,
        tier=Tier.CHAT,
        price=PRICE,
        max_model_len=2048,
        block_size=16,
        tokenizer_sha256="0" * 64,
    )
    made = [replace(version, id=VersionId(f"a{n}@0123456789ab"), base=version.id) for n in range(adapters)]
    held = [{(7 * n + k) % size for k in range(2)} for n in range(adapters)]
    workers = tuple(
        WorkerEntry(
            id=_name(n),
            url=_url(n),
            state=WorkerState.READY,
            zone=ZONES[n % len(ZONES)],
            load=_load(n + number),
            adapters=tuple(one.id for a, one in enumerate(made) if n in held[a]),
        )
        for n in range(size)
    )
    return RoutingTable(number=number, made_at=1.0, versions=(replace(version, workers=workers), *made))


def router(size: int, sample: SampleSettings, adapters: int = 0) -> tuple[WorkerRouter, tuple[VersionEntry, ...]]:
    """Return a gateway's router that has heard of every worker of such a table, and its versions."""
    current, chance = CurrentTable(), random.Random(1)
    breakers, settings = Breakers(chance), RouterSettings(sample=sample)
    made = WorkerRouter(
        table=current, health=breakers, clock=SystemClock(), chance=chance, settings=settings, metrics=Metrics()
    )
    current.on_change(lambda _, after: breakers.learn(after.table.versions, after.at))
    known = table(size, adapters=adapters)
    current.swap(known, 0.0)
    for worker in known.versions[0].workers:
        made.heard(worker.id, Load(queued_tokens=chance.randrange(1_000)))
    return made, known.versions


def chooser(size: int) -> Choosing:
    """Return a gateway's choice over such a table, with an alias and with a name that stands for two rules."""
    current, known = CurrentTable(), table(size)
    route = Route(alias=Alias("plain"), shares=(Share(version=known.versions[0].id, weight=WEIGHT_TOTAL),))
    rules = (Rule(name="tools", to=Alias("plain"), tools=True), Rule(name="rest", to=Alias("plain")))
    autos = (Auto(alias=Alias("auto"), rules=rules),)
    current.swap(replace(known, routes=(route,), autos=autos), 0.0)
    return Choosing(
        autos=TableResolver(current).auto,
        resolver=TableResolver(current),
        preprocessor=_Prepared(),
        count=lambda _alias, _rule: None,
    )


class _Prepared:
    """The preprocessor's place: what it costs itself is measured elsewhere."""

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        del request, version, principal
        return _SHORT


_SHORT = Prepared(prompt_tokens=10)


def catalogue(size: int, versions: int) -> Catalogue:
    """Return this many versions that share this many workers."""
    made = tuple(_version(n) for n in range(versions))
    return Catalogue(
        versions=made,
        routes=tuple(
            Route(alias=Alias(one.manifest.name), shares=(Share(version=one.id, weight=WEIGHT_TOTAL),)) for one in made
        ),
        deployments=tuple(
            Deployment(version=one.id, replicas=len(range(n, size, versions))) for n, one in enumerate(made)
        ),
    )


def heartbeats(size: int, versions: int, queued_tokens: int) -> tuple[Seen, ...]:
    """Return every worker's heartbeat of second 0."""
    ids = [_version(n).id for n in range(versions)]
    return tuple(
        Seen(
            report=WorkerReport(
                worker=_name(n),
                version=ids[n % versions],
                state=WorkerState.READY,
                url=_url(n),
                zone=ZONES[n % len(ZONES)],
                load=_load(n + queued_tokens),
                phases=STARTED,
            ),
            at=0.0,
        )
        for n in range(size)
    )


def _version(number: int) -> ModelVersion:
    name = f"m{number}"
    manifest = Manifest(
        name=ModelName(name),
        task=Task.GENERATE,
        tier=Tier.CHAT,
        files=(),
        price=PRICE,
        provenance=Provenance(origin="made up", licence="none"),
    )
    return ModelVersion(id=VersionId(f"{name}@0123456789ab"), digest="0" * 64, manifest=manifest, created_at=0.0)


def _name(number: int) -> WorkerId:
    return WorkerId(f"w{number:05}")


def _url(number: int) -> str:
    return f"http://10.0.{number // 256}.{number % 256}:40000"


def _load(queued_tokens: int) -> Load:
    return Load(running=3, queued_tokens=queued_tokens)
