"""Adapters on real processes: registered, in the table, asked for, rolled out; engines alone are stubs."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx
import pytest

from penstock.domain.ids import NO_VERSION, WorkerId
from penstock.domain.models.model import EngineSettings, Manifest, digest_of
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.ticket import HEADER, unseal
from penstock.domain.tenancy.keys import worker_secret
from tests.support.gateways.process import PLATFORM_KEY
from tests.support.gateways.shared_limits import PRICE
from tests.support.models import adapter_folders
from tests.support.patience import until
from tests.support.platforms.rollouts import ALIAS, STAGES, TENANTS, Crowd, Town, comes_to, manifest_of, town, traffic
from tests.support.samples import adapter_versions

TWICE = 2 * PRICE.output_per_mtok
ROOM = EngineSettings(adapter_slots=2, adapter_rank=8)
BASE = adapter_versions.version_of(replace(manifest_of(90), engine=ROOM))
UNSEEN: dict[str, object] = {
    "stages": [{"name": "shadow", "weight": 0, "min_s": 1.0}, *STAGES],
    "shadow": {"per_s": 30.0, "tokens_per_s": 1e5, "at_once": 64, "scored_per_s": 10.0},
}
pytestmark = pytest.mark.integration


def manifest(seed: str) -> Manifest:
    """Return an adapter that costs twice what its base does."""
    own = Price(prompt_per_mtok=MicroUsd(0), cached_per_mtok=MicroUsd(0), output_per_mtok=MicroUsd(TWICE))
    return replace(adapter_versions.manifest("pirate", BASE, seed=seed), price=own)


@dataclass(kw_only=True)
class Place:
    """A town with a base, and an adapter of it that an alias leads to."""

    town: Town
    base: str
    first: str

    def turned_on(self, seed: str) -> str:
        """Register an adapter and turn it on."""
        version = self.town.register(manifest(seed))
        self.town.call("PUT", f"/deployments/{version}", {"replicas": 1})
        return version

    def ask(self, model: str, tenant: str = TENANTS[0]) -> httpx.Response:
        gateway = next(iter(self.town.site.gateways.values()))
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
        headers = {"authorization": f"Bearer {self.town.site.secrets[tenant]}"}
        return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False)

    def told(self) -> tuple[str, str]:
        """Return what the engine was asked for last: the body's model, and the adapter in the ticket."""
        stats = self.town.site.engines[0].stats
        key = worker_secret(PLATFORM_KEY, WorkerId(self.worker))
        return stats["last_body"]["model"], unseal(stats["last_headers"][HEADER], key, time.time()).ticket.adapter

    @property
    def worker(self) -> str:
        (one,) = (self.town.home.root / "run/workers").glob("*.json")
        return one.stem


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Yield a site with an alias that leads to an adapter."""
    with town() as running:
        running.site.engines[0].behave(delay_ms=40.0)
        base = running.version(running.site.engines[0], BASE.manifest)
        assert base == BASE.id
        found = Place(town=running, base=base, first="")
        found.first = found.turned_on("e")
        running.lead_to(found.first)
        yield found


def test_a_request_comes_to_the_bases_worker_under_the_adapters_name(place: Place) -> None:
    """By alias and by its own name; the base's own requests carry no adapter; each is billed to the answering
    version.
    """
    assert place.ask(ALIAS).headers["x-penstock-version"] == place.first
    assert place.told() == (place.first, place.first)
    assert place.ask(place.first).status_code == 200
    assert place.ask(place.base).status_code == 200
    assert place.told() == (place.base, NO_VERSION)
    until("all is billed", lambda: place.town.bill(place.base)[TENANTS[0]] == 1, within_s=30)
    assert place.town.bill(place.first)[TENANTS[0]] >= 2
    rows = place.town.call("GET", f"/usage/rows?tenant={TENANTS[0]}")["rows"]
    costs = {(row["version"], row["digest"], row["cost"]) for row in rows if row["outcome"] == "ok"}
    own = BASE.manifest.price.output_per_mtok // 1_000_000
    assert costs == {(place.first, digest_of(manifest("e")), 2 * own), (place.base, BASE.digest, own)}
    assert len(place.town.home.workers()) == 1


def test_what_a_worker_holds_comes_to_table_and_operators(place: Place) -> None:
    """It reports, and the next table and the list of models say so."""
    (place.town.home.root / "adapters.json").write_text(json.dumps({place.base: [place.first]}))

    def held() -> bool:
        models = {one["id"]: one for one in place.town.call("GET", "/models")["models"]}
        table = {one["id"]: one for one in place.town.call("GET", "/table")["versions"]}
        in_table = [worker["adapters"] for worker in table[place.base]["workers"]] == [[place.first]]
        return in_table and len(models[place.first]["resident"]) == 1

    until("the adapter is resident", held, within_s=30)
    assert place.ask(ALIAS).status_code == 200


def test_what_an_adapter_may_not_be_and_a_base_may_not_do(place: Place) -> None:
    """Refused by the controller over its API: a rank too high, no base, a base that goes; unknown names are 404."""
    with pytest.raises(AssertionError, match="its rank is 16"):
        place.town.register(adapter_versions.manifest("pirate", BASE, rank=16))
    strange = adapter_versions.version_of(replace(manifest_of(91), engine=ROOM))
    with pytest.raises(AssertionError, match="no version here has the digest"):
        place.town.register(adapter_versions.manifest("pirate", strange))
    with pytest.raises(AssertionError, match="is served by its workers"):
        place.town.call("PUT", f"/deployments/{place.base}", {"replicas": 0})
    statuses = {place.ask(f"pirate@{number:012x}").status_code for number in range(100)}
    assert statuses == {404}


def pushed_as(told: str) -> str:
    """Return the version that a push ended with, wherever that stands between the lines of its progress."""
    (version,) = re.findall(r"^\w+@[0-9a-f]{12}$", told, re.MULTILINE)
    return str(version)


def test_an_operator_pushes_one_beside_its_base(place: Place, tmp_path: Path) -> None:
    """By command line, from a folder to a version that is on; a bad number is told, and nothing is registered."""
    run, folders = Crowd(place=place.town).command, (tmp_path / "m", tmp_path / "a", tmp_path / "b")
    terms = ("--price", "0.1/0.1/0.2", "--licence", "Apache-2.0")
    room = ("--engine", "adapter_slots=2", "--engine", "adapter_rank=8", "--workers", "1")
    own = adapter_folders.base_folder(folders[0])
    version = pushed_as(run("models", "push", str(own), "--name", "m", *terms, *room))
    beside = ("--base", version, *terms, "--workers", "1")
    made = adapter_folders.adapter_folder(folders[1])
    adapter = pushed_as(run("models", "push", str(made), "--name", "a", *beside))
    bad = adapter_folders.tensors()
    next(iter(bad.values())).values[0] = float("nan")
    refused = run("models", "push", str(adapter_folders.adapter_folder(folders[2], bad)), "--name", "b", *beside)
    assert "is not a finite number" in " ".join(refused.split())
    listed = {one["id"]: one for one in place.town.call("GET", "/models")["models"]}
    assert (listed[adapter]["base"], listed[adapter]["replicas"]) == (version, 1)
    assert not [one for one in listed if one.startswith("b@")]
    assert f"an adapter of {version}" in " ".join(run("models", "list").split())


@pytest.mark.drill
async def test_a_rollout_goes_from_one_adapter_to_the_next_on_the_same_worker(place: Place) -> None:
    """Copies and scores under the candidate's name first, then shares, then all of it; no worker is started."""
    second, before = await asyncio.to_thread(place.turned_on, "d"), len(place.town.home.workers())
    assert digest_of(manifest("d")).startswith(second.partition("@")[2])
    rollout = await asyncio.to_thread(partial(place.town.start, second, **UNSEEN))
    async with traffic(place.town) as users:
        done = await comes_to(place.town, rollout, "done", "held", "aborted", within_s=300.0)
    assert (done["state"], done["incumbent"]) == ("done", place.first), done["history"]
    assert [one["stage"] for one in done["history"]] == [0, 1, 2, 3, 3]
    assert set(users.statuses()) == {200}
    assert await asyncio.to_thread(place.town.asked_once) == second
    assert len(place.town.home.workers()) == before
    assert (await asyncio.to_thread(place.town.bill, second))["_shadow"] > 0
