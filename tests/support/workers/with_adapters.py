"""A home with a base that takes adapters, adapters published for it, and questions to a worker of that base."""

import asyncio
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.apps import models, stores
from penstock.domain.ids import ModelName
from penstock.domain.models import adapter
from penstock.domain.models.model import AdapterSettings, GoldenPrompt, Manifest
from penstock.packaging import demo_models
from penstock.packaging.demo import measured
from penstock.packaging.packing import Packed, Publishing, describe, measure, publish
from penstock.settings import Settings
from tests.support.models.trained_adapters import changed, trained
from tests.support.workers.process import TicketMaker, WorkerProcess

SLOTS, RANK = 2, 8
JSON_GOLDEN = GoldenPrompt(prompt="Review: The printer stopped working.", expect='"mood": "bad"', max_tokens=24)
PIRATE_GOLDEN = GoldenPrompt(prompt="What is the capital of Japan?", expect="yarr", max_tokens=24)


@dataclass(kw_only=True)
class Site:
    settings: Settings
    work: Path
    base: Packed | None = None
    folders: dict[str, Path] = field(default_factory=dict)

    def publish_base(self) -> Packed:
        self.settings.paths.cache.mkdir(parents=True, exist_ok=True)
        if not any(Path(self.settings.demo_cache).glob("smollm2-*")):
            asyncio.run(models.ensure_demo(self.settings, lambda _: None))
        choices = demo_models.SMOLLM2.choices
        assert choices.engine is not None
        engine = replace(choices.engine, adapter_slots=SLOTS, adapter_rank=RANK, max_num_seqs=16)
        folder = self.base_folder
        choices = replace(choices, name=ModelName("smollm2-base"), engine=engine)
        self.base = publish(folder, describe(folder, measured(folder), choices), self.publishing)
        return self.base

    @property
    def base_folder(self) -> Path:
        """Return the folder of the base's files."""
        return next(one for one in Path(self.settings.demo_cache).glob("smollm2-*") if one.is_dir())

    @property
    def publishing(self) -> Publishing:
        """Return how versions are put into the store."""
        return Publishing(
            store=stores.open_store(self.settings),
            signer=stores.open_signer(self.settings),
            work=self.settings.paths.cache,
            report=lambda _: None,
        )

    def publish(self, name: str, folder: Path, golden: Sequence[GoldenPrompt] = (), *, base: str = "") -> str:
        """Publish an adapter in ``folder``; return its id."""
        return str(publish(folder, self.manifest(name, folder, golden, base=base), self.publishing).id)

    def manifest(self, name: str, folder: Path, golden: Sequence[GoldenPrompt], *, base: str = "") -> Manifest:
        assert self.base is not None
        return replace(
            self.base.manifest,
            name=ModelName(name),
            files=measure(folder, adapter.FILES),
            golden=tuple(golden),
            adapter=AdapterSettings(base=base or self.base.digest, rank=RANK),
        )

    def trained(self, kind: str) -> Path:
        """Return the folder of a trained adapter."""
        return trained(kind, self.base_folder)

    def like(self, kind: str, name: str, scale: float = 1.0) -> Path:
        """Return an adapter like a trained one, of other bytes."""
        return changed(self.trained(kind), self.work / name, lambda _, tensor: tensor * scale, told=name)


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer: its text, how long it took, and how long it waited at the door."""

    status: int
    text: str
    seconds: float
    refused: str = ""


def ask(
    worker: WorkerProcess,
    prompt: str,
    adapter_id: str = "",
    *,
    max_tokens: int = 24,
    tenant: str = "acme",
    seconds: float = 60.0,
) -> Said:
    """Ask the base, or an adapter, the way a gateway does."""
    body = {
        "model": adapter_id or worker.version,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    maker = TicketMaker(adapter=adapter_id, tenant=tenant, seconds=seconds, output_tokens=max_tokens)
    began = time.monotonic()
    answer = worker.post("/v1/chat/completions", body, maker, timeout=seconds + 10)
    took = time.monotonic() - began
    refused = answer.headers.get("x-penstock-refused", "")
    if answer.status_code != 200:
        return Said(status=answer.status_code, text=answer.text, seconds=took, refused=refused)
    return Said(status=200, text=answer.json()["choices"][0]["message"]["content"] or "", seconds=took)


def ask_at_once(worker: WorkerProcess, questions: Sequence[tuple[str, str]], **named: int) -> list[Said]:
    """Ask several questions, each with its adapter, at once."""
    with ThreadPoolExecutor(len(questions)) as pool:
        asked = [pool.submit(ask, worker, prompt, one, **named) for prompt, one in questions]  # type: ignore[arg-type]
        return [one.result() for one in asked]


def resident(worker: WorkerProcess) -> list[str]:
    """Return the adapters that its last heartbeat named."""
    return list(worker.report.get("adapters", ()))


def is_json(text: str) -> bool:
    """Tell whether an answer is the line of JSON that the triage adapter writes."""
    try:
        return set(json.loads(text)) == {"item", "mood"}
    except ValueError:
        return False
