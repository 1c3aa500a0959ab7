"""Small ready-made things of the control plane for tests: versions, routes, reports, acts."""

from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, Share
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import Alias, ModelName, VersionId, WorkerId
from penstock.domain.models.model import (
    Artifact,
    Manifest,
    ModelVersion,
    Provenance,
    Task,
    Tier,
    digest_of,
    version_id,
)
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.report import Load
from penstock.domain.tenancy.audit import Act

TINY = VersionId("tiny@000000000000")
NOW = 1_800_000_000.0


def price(prompt: int = 100, cached: int = 10, output: int = 300) -> Price:
    return Price(prompt_per_mtok=MicroUsd(prompt), cached_per_mtok=MicroUsd(cached), output_per_mtok=MicroUsd(output))


def manifest(name: str = "tiny", *, seed: str = "a", licence: str = "Apache-2.0", path: str = "") -> Manifest:
    return Manifest(
        name=ModelName(name),
        task=Task.GENERATE,
        tier=Tier.CHAT,
        files=(
            Artifact(path="tokenizer.json", sha256="b" * 64, size_bytes=10),
            Artifact(path=path or "model.safetensors", sha256=seed[0] * 64, size_bytes=20),
        ),
        price=price(),
        provenance=Provenance(origin="made for a test", licence=licence),
        chat_template="{{ messages }} ü",
        special_tokens=(("bos_token", "<s>"),),
    )


def version(name: str = "tiny", *, seed: str = "a", at: float = NOW) -> ModelVersion:
    made = manifest(name, seed=seed)
    digest = digest_of(made)
    return ModelVersion(id=version_id(made.name, digest), digest=digest, manifest=made, created_at=at)


def route(alias: str, *versions: VersionId) -> Route:
    weight = WEIGHT_TOTAL // len(versions)
    return Route(alias=Alias(alias), shares=tuple(Share(version=one, weight=weight) for one in versions))


def act(what: str = "test", *, at: float = NOW, target: str = "it") -> Act:
    return Act(who="tester", what=what, target=target, at=at)


def report(
    worker: str = "w1",
    of: VersionId = TINY,
    state: WorkerState = WorkerState.READY,
    *,
    queued_tokens: int = 0,
    url: str = "http://127.0.0.1:1",
    phases: tuple[PhaseTiming, ...] = (),
) -> WorkerReport:
    return WorkerReport(
        worker=WorkerId(worker), version=of, state=state, url=url, load=Load(queued_tokens=queued_tokens), phases=phases
    )


def seen(one: WorkerReport, at: float = NOW) -> Seen:
    return Seen(report=one, at=at)
