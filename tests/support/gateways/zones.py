"""A real gateway process before stub engines that stand in named zones and versions; no database, no vLLM."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import msgspec

from penstock.domain.fleet.table import Route, RoutingTable, Share, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from penstock.telemetry.definitions import Metric
from tests.support.gateways.process import PLATFORM_KEY, GatewayProcess, prepare, started
from tests.support.gateways.shared_limits import Stub, stub
from tests.support.platforms.readings import reading, sample_name
from tests.support.samples.calls import VERSION

CHAT = "/v1/chat/completions"
FREE = Price(prompt_per_mtok=MicroUsd(0), cached_per_mtok=MicroUsd(0), output_per_mtok=MicroUsd(0))
DEAR = replace(FREE, output_per_mtok=MicroUsd(10**12))


@dataclass(frozen=True, kw_only=True)
class Site:
    """One gateway, and its engines by name: the version's first letter, the zone, a number."""

    gateway: GatewayProcess
    engines: Mapping[str, Stub]
    secrets: Mapping[str, str]
    """The keys of the tenants beside the first one."""

    def ask(self, model: str, **fields: object) -> httpx.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, **fields}
        with self.gateway.http() as http:
            return http.post(CHAT, json=body)

    def counted(self, metric: Metric, **labels: str) -> float:
        """Return one of the gateway's numbers, summed over the labels that are not named."""
        return reading(self.gateway.metrics_url, sample_name(metric), labels)

    def asked(self, prefix: str) -> int:
        """Return how many requests these engines have seen."""
        return sum(engine.stats["requests"] for name, engine in self.engines.items() if name.startswith(prefix))


@contextmanager
def site(
    root: Path,
    models: Mapping[str, Mapping[str, int]],
    *,
    plan: Plan,
    start_s: float,
    dear: str = "",
    tenants: tuple[str, ...] = (),
) -> Iterator[Site]:
    """Run a gateway before engines of each model (each an alias too) in each zone; ``tenants``: more of them.

    Nothing costs anything but the output of the model named ``dear``, at a dollar a token.
    """
    with ExitStack() as running:
        engines = {
            f"{model}-{zone}{n}": running.enter_context(stub())
            for model, zones in models.items()
            for zone, count in zones.items()
            for n in range(count)
        }
        home = prepare(root, next(iter(engines.values())).url, plan)
        _write_table(root / "run/gateway/table.json", engines, start_s, dear)
        secrets = _add_tenants(root / "run/gateway/keys.json", tenants, plan)
        yield Site(gateway=running.enter_context(started(home)), engines=engines, secrets=secrets)


def _add_tenants(file: Path, names: tuple[str, ...], plan: Plan) -> dict[str, str]:
    """Write a key for each of them beside the prepared one, and return their secrets."""
    ring, pepper = msgspec.json.decode(file.read_bytes(), type=KeyRing), derive(PLATFORM_KEY, Purpose.PEPPER)
    minted = {name: mint(TenantId(name), pepper=pepper, now=0.0) for name in names}
    more = tuple(Tenant(id=TenantId(name), name=name, plan=plan) for name in names)
    keys = (*ring.keys, *(key for _, key in minted.values()))
    file.write_bytes(msgspec.json.encode(replace(ring, keys=keys, tenants=(*ring.tenants, *more))))
    return {name: secret for name, (secret, _) in minted.items()}


def _write_table(file: Path, engines: Mapping[str, Stub], start_s: float, dear: str) -> None:
    """Replace the prepared table by one with these engines; tokenizer and template stay."""
    plain = msgspec.json.decode(file.read_bytes(), type=RoutingTable).versions[0]
    models = sorted({name.split("-")[0] for name in engines})
    versions = tuple(
        replace(_version(plain, model, engines, start_s), price=DEAR if model == dear else FREE) for model in models
    )
    routes = tuple(
        Route(alias=Alias(one.id.partition("@")[0]), shares=(Share(version=one.id, weight=10_000),)) for one in versions
    )
    file.write_bytes(msgspec.json.encode(RoutingTable(number=4, made_at=0.0, routes=routes, versions=versions)))


def _version(plain: VersionEntry, model: str, engines: Mapping[str, Stub], start_s: float) -> VersionEntry:
    workers = tuple(
        WorkerEntry(id=WorkerId(name), url=engine.url, state=WorkerState.READY, zone=name.split("-")[1][0])
        for name, engine in engines.items()
        if name.split("-")[0] == model
    )
    name = VersionId(f"{model}@{VERSION.digest[:12]}")
    return replace(plain, id=name, workers=workers, start_s=start_s)
