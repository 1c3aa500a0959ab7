"""The agent brings adapters: what is sound becomes ready, what is not is refused, and nobody else notices."""

import asyncio
import json
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.errors import ArtifactRefused, EngineError, StoreUnavailable
from penstock.domain.ids import ModelName, VersionId
from penstock.domain.models.model import (
    AdapterSettings,
    EngineSettings,
    GoldenPrompt,
    Manifest,
    Provenance,
    Task,
    Tier,
    digest_of,
)
from penstock.domain.money import MicroUsd, Price
from penstock.worker.agent.adapters import MOST_REASON_CHARS, MOST_TOLD, REFUSED_FOR_S, AdapterLoader
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.health import Cause
from penstock.worker.agent.running import EngineLost
from penstock.worker.agent.warmup.warm import EngineRefused
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy
from tests.support.gateways.dispatch import until

A, B = VersionId("a@000000000000"), VersionId("b@000000000000")
FREE = MicroUsd(0)
BASE = Manifest(
    name=ModelName("m"),
    task=Task.GENERATE,
    tier=Tier.CHAT,
    files=(),
    price=Price(prompt_per_mtok=FREE, cached_per_mtok=FREE, output_per_mtok=FREE),
    provenance=Provenance(origin="here", licence="Apache-2.0"),
    engine=EngineSettings(max_model_len=1024, adapter_slots=1, adapter_rank=8),
    golden=(GoldenPrompt(prompt="base?", expect="right", max_tokens=4),),
)
ADAPTER = replace(
    BASE,
    adapter=AdapterSettings(base=digest_of(BASE), rank=8),
    golden=(GoldenPrompt(prompt="adapter?", expect="right", max_tokens=4),),
)


@dataclass
class Engine:
    """Stands for gate and engine: wants adapters in turn, takes their weights, answers as told."""

    wanted: list[VersionId] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    settled: list[tuple[str, str, str]] = field(default_factory=list)
    resident: list[str] = field(default_factory=list)
    evicts: list[str] = field(default_factory=list)
    says: Callable[[str], str] = lambda _: "right"
    numbers: Callable[[str], object] = lambda _: [-0.5, -1.0]
    takes: bool = True
    full: bool = False
    pinned: list[list[str]] = field(default_factory=list)
    deaf: int = 0

    async def ask(self, model: str, path: str, body: Mapping[str, object]) -> Mapping[str, object]:
        if path.endswith("/wanted"):
            if not self.wanted:
                await asyncio.Event().wait()
            return {"adapter": self.wanted.pop(0)}
        if path.endswith("/pin"):
            return self.pin(cast("list[str]", body["adapters"]))
        if path.endswith("/load"):
            return self.load(str(body["adapter"]))
        if path.endswith("/settle"):
            return self.settle(str(body["adapter"]), str(body["outcome"]), str(body["reason"]))
        if "logprobs" in body:
            return self.number(model)
        return {"choices": [{"text": self.says(model)}]}

    def number(self, model: str) -> Mapping[str, object]:
        told = self.numbers(model)
        if isinstance(told, Exception):
            raise told
        return {"choices": [{"text": "", "logprobs": {"token_logprobs": told}}]}

    def pin(self, adapters: list[str]) -> Mapping[str, object]:
        if self.deaf:
            self.deaf -= 1
            raise EngineError("503: not yet")
        self.pinned.append(adapters)
        return {}

    def load(self, adapter: str) -> Mapping[str, object]:
        self.resident = [one for one in self.resident if one not in self.evicts]
        if not self.takes:
            raise EngineError("500: no")
        self.loads.append(adapter)
        return {"full": self.full}

    def settle(self, adapter: str, outcome: str, reason: str) -> Mapping[str, object]:
        self.settled.append((adapter, outcome, reason))
        self.resident += [adapter] if outcome == "ready" else []
        return {"resident": self.resident}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client(GateClient):
    engine: Engine

    async def ask(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        return await self.engine.ask(self.version, path, body)


def weights(folder: Path, value: float = 1.0, settings: object = None) -> Path:
    name = "base_model.model.q.lora_A.weight"
    header = json.dumps({name: {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}}).encode()
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings or {"r": 1, "lora_alpha": 2}))
    raw = len(header).to_bytes(8, "little") + header + struct.pack("<f", value)
    (folder / "adapter_model.safetensors").write_bytes(raw)
    return folder


@dataclass
class Site:
    """An agent's adapters, a store, an engine."""

    folder: Path
    engine: Engine = field(default_factory=Engine)
    manifest: Manifest = ADAPTER
    value: float = 1.0
    settings: object = None
    error: Exception | None = None
    holds: list[Hold] = field(default_factory=list)
    changes: int = 0

    def __post_init__(self) -> None:
        client = Client(
            url="http://x", version=VersionId("m@1"), ticket_key=b"k", clock=SystemClock(), engine=self.engine
        )
        self.adapters = AdapterLoader(client=client, obtain=self.obtain, clock=SystemClock(), changed=self.changed)

    async def obtain(self, adapter: VersionId) -> Copy:
        if self.error is not None:
            raise self.error
        hold = Hold(self.folder / f"{adapter}.use")
        self.holds.append(hold)
        return Copy(folder=weights(self.folder / adapter, self.value, self.settings), manifest=self.manifest, hold=hold)

    def changed(self) -> None:
        self.changes += 1

    async def live(self, *wanted: VersionId) -> EngineLost:
        """Let an engine live until all of this is settled."""
        self.engine.wanted, before = list(wanted), len(self.engine.settled)

        async def watch() -> EngineLost:
            for _ in range(2000):
                if Counter(adapter for adapter, *_ in self.engine.settled[before:]) >= Counter(wanted):
                    break
                await asyncio.sleep(0.002)
            self.seen = self.adapters.resident
            return EngineLost(Cause.CRASH, "over")

        return await self.adapters.beside(watch(), BASE)

    @property
    def outcome(self) -> tuple[str, str]:
        """Return how the last load ended, and why."""
        return self.engine.settled[-1][1:]

    @property
    def held(self) -> list[bool]:
        """Tell which copies are still held."""
        return [cast("Any", hold)._fd >= 0 for hold in self.holds]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a site where all is well."""
    return Site(tmp_path)


async def test_a_sound_adapter_is_loaded_questioned_and_reported(site: Site) -> None:
    """It is ready once it and its base beside it have answered right; the heartbeat is told at once."""
    await site.live(A)
    assert site.engine.loads == [A]
    assert site.outcome == ("ready", "")
    assert (site.seen, site.changes, site.held) == ((A,), 2, [True])


async def test_an_adapter_of_another_base_is_never_loaded(site: Site) -> None:
    """The base's whole digest counts."""
    site.manifest = replace(ADAPTER, adapter=AdapterSettings(base="f" * 64, rank=8))
    await site.live(A)
    assert site.engine.loads == []
    assert site.outcome[0] == "refused"
    assert "made for ffffffffffff" in site.outcome[1]
    assert site.held == [False]


@pytest.mark.parametrize(
    ("manifest", "value", "error", "why"),
    [
        (ADAPTER, float("nan"), None, "numbers that are none"),
        (ADAPTER, 1e36, None, "may multiply its input by 1.0e+36"),
        (replace(ADAPTER, adapter=AdapterSettings(base=digest_of(BASE), rank=16)), 1.0, None, "rank is 16"),
        (replace(ADAPTER, adapter=None), 1.0, None, "made for nobody"),
        (ADAPTER, 1.0, ArtifactRefused("it is not signed"), "not signed"),
    ],
    ids=["NaN", "gain", "rank", "no adapter", "unsigned"],
)
async def test_what_is_not_sound_is_never_loaded(
    site: Site, manifest: Manifest, value: float, error: Exception | None, why: str
) -> None:
    """Numbers that are none, ranks that fit no slot, other versions, what nobody signed: refused with the reason."""
    site.manifest, site.value, site.error = manifest, value, error
    await site.live(A)
    assert site.engine.loads == []
    assert site.outcome[0] == "refused"
    assert why in site.outcome[1]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ([1], "gives no scale"),
        ({"r": 0, "lora_alpha": 1}, "gives no scale"),
        ({"r": 8}, "gives no scale"),
        ({"r": 1, "lora_alpha": 10**400}, "gives no scale"),
        ({"r": 1, "lora_alpha": 1e300}, "its scale of 1e+300"),
        ({"r": 1, "lora_alpha": float("inf")}, "its scale of inf"),
        ({"r": 1, "lora_alpha": float("nan")}, "its scale of nan"),
    ],
)
async def test_settings_without_a_scale_are_refused(site: Site, settings: object, why: str) -> None:
    """An adapter that was signed before packaging looked closer, or elsewhere."""
    site.settings, site.value = settings, 0.0
    await site.live(A)
    assert (site.engine.loads, site.outcome[0]) == ([], "refused")
    assert why in site.outcome[1]


async def test_wrong_golden_answers_refuse_an_adapter_and_nobody_else(site: Site) -> None:
    """The next one is loaded, and the engine goes on."""
    site.engine.says = lambda model: "wrong" if model == A else "right"
    lost = await site.live(A, B)
    assert [one[:2] for one in site.engine.settled] == [(A, "refused"), (B, "ready")]
    assert "expected 'right'" in site.engine.settled[0][2]
    assert lost.message == "over"


async def test_why_an_adapter_is_refused_is_reported_until_it_is_served(site: Site) -> None:
    """The heartbeat tells of the latest few, each in so many characters; one that answers right is told of no more."""
    refused = [VersionId(f"r{number}@000000000000") for number in range(MOST_TOLD + 1)]
    site.engine.says = lambda model: "wrong" * 100 if model in refused else "right"
    await site.live(*refused)
    assert [one.version for one in site.adapters.refused] == refused[1:]
    newest = site.adapters.refused[-1]
    assert ("expected 'right'" in newest.reason, len(newest.reason) <= MOST_REASON_CHARS) == (True, True)
    assert REFUSED_FOR_S - 10.0 < newest.left_s <= REFUSED_FOR_S
    site.engine.says = lambda _: "right"
    await site.live(newest.version)
    assert [one.version for one in site.adapters.refused] == refused[1:-1]


async def test_a_base_that_answers_wrong_beside_an_adapter_is_seen(site: Site) -> None:
    """Asked alone it would be right: the question beside the adapter finds it, and the adapter is refused."""
    asked: list[str] = []

    def says(model: str) -> str:
        asked.append(model)
        return "arr" if asked[-2:] == [A, "m@1"] and len(asked) <= 3 else "right"

    site.engine.says = says
    await site.live(A)
    assert site.outcome[0] == "refused"
    assert "its base model answers wrong" in site.outcome[1]


NO_JSON = EngineRefused("the engine answered 400: Out of range float values are not JSON compliant: nan")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([-0.1, float("nan")], "no numbers"),
        ([None], "no numbers"),
        ([-9999.0], "no numbers"),
        ([], "answers nothing"),
        (NO_JSON, "no numbers, and can't be sent"),
        (EngineError("500: no"), "can't say its log probabilities: 500: no"),
    ],
    ids=["NaN", "null", "floor", "empty", "no JSON", "error"],
)
async def test_an_adapter_without_log_probabilities_is_refused(site: Site, told: object, why: str) -> None:
    """Golden prompts or none: its base and others go on."""
    site.engine.numbers = lambda model: told if model == A else [-0.5]
    site.manifest = replace(ADAPTER, golden=())
    lost = await site.live(A, B)
    assert [one[:2] for one in site.engine.settled] == [(A, "refused"), (B, "ready")]
    assert why in site.engine.settled[0][2]
    assert lost.message == "over"


@pytest.mark.parametrize("told", [[float("nan")], [], NO_JSON], ids=["NaN", "empty", "no JSON"])
async def test_a_base_left_without_numbers_is_started_anew(site: Site, told: object) -> None:
    """What an adapter that overflows leaves in the KV cache empties the base's answers, where no golden prompt asks."""
    site.engine.numbers = lambda _: told
    lost = await site.live(A, B)
    assert site.outcome[0] == "refused"
    assert f"after {A}" in lost.message


async def test_a_base_that_can_not_be_asked_is_not_spoilt(site: Site) -> None:
    """An engine that refuses a question after an adapter was refused is not started anew for it."""
    site.engine.numbers = lambda _: EngineError("503: later")
    assert (await site.live(A)).message == "over"


async def test_an_engine_whose_base_stays_wrong_is_started_anew(site: Site) -> None:
    """What an adapter left in the engine's memory is not served on: the engine is lost."""
    site.engine.says = lambda model: "right" if model == A else "arr"
    lost = await site.live(A, B)
    assert "answer" in lost.message
    assert lost.message != "over"


async def test_a_store_that_is_away_is_asked_again_soon(site: Site) -> None:
    """It is nobody's fault: whoever waits hears so, and the next request tries again within seconds."""
    site.error = StoreUnavailable("the store is away")
    await site.live(A)
    assert site.outcome == ("refused", "the store is away")
    site.error = None
    await site.live(A)
    assert site.outcome == ("ready", "")


async def test_no_room_is_no_fault(site: Site) -> None:
    """Where nobody may give way just now, it stays wanted."""
    site.engine.full = True
    await site.live(A)
    assert (site.outcome, site.held) == (("gave_up", ""), [False])


async def test_what_the_engine_does_not_take_is_refused(site: Site) -> None:
    """Its own words are the reason."""
    site.engine.takes = False
    await site.live(A)
    assert site.outcome == ("refused", "the engine does not take it: 500: no")


@pytest.mark.parametrize("takes", [True, False])
async def test_the_copy_of_an_evicted_adapter_may_go(site: Site, *, takes: bool) -> None:
    """A copy is held for as long as the engine has it, also if it then refuses the one that had the room made."""
    await site.live(A)
    site.engine.evicts, site.engine.takes, site.adapters._before = [A], takes, ()
    await site.live(B)
    assert site.held == [False, takes]


async def test_adapters_come_back_after_an_engine_is_lost(site: Site) -> None:
    """Those that were resident are loaded into the next engine before anything else, and questioned again."""
    await site.live(A)
    assert site.adapters.resident == ()
    site.engine.resident = []
    await site.live()
    assert site.engine.loads == [A], "this one is lost before anything was loaded"
    site.engine.settled.clear()
    await site.live(B)
    assert site.engine.settled[0][:2] == (A, "ready")
    assert site.engine.loads[:2] == [A, A]


async def test_each_engine_hears_what_is_pinned(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start and with each change; one that can't hear it is told again; those come back first."""
    monkeypatch.setattr("penstock.worker.agent.adapters.AGAIN_S", 0.001)
    site.engine.deaf, over = 1, asyncio.Event()

    async def watch() -> EngineLost:
        await over.wait()
        return EngineLost(Cause.CRASH, "over")

    await site.live(A, B)
    site.adapters.pin((B,))
    site.engine.loads.clear()
    living = asyncio.ensure_future(site.adapters.beside(watch(), BASE))
    await until(lambda: site.engine.pinned[-1:] == [[B]] and site.engine.loads == [B, A])
    site.adapters.pin((A, B))
    await until(lambda: site.engine.pinned[-1] == [A, B])
    over.set()
    await living
