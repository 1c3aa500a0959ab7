"""Adapters in the registry: what is refused beside its base, and how long a base has to stay."""

from dataclasses import replace

import pytest

from penstock.control.registry import adapters, rules
from penstock.domain.errors import ArtifactRefused, Conflict, InvalidField
from penstock.domain.fleet.versions import Catalogue, Deployment
from penstock.domain.ids import VersionId
from penstock.domain.models.model import (
    AdapterSettings,
    Artifact,
    EngineSettings,
    Manifest,
    SamplingDefaults,
    Task,
    digest_of,
)
from tests.support.samples import adapter_versions as made
from tests.support.samples import control_plane as things

BASE, PIRATE = made.BASE, made.version()
GOOD = made.manifest()
SMALL = made.version_of(replace(BASE.manifest, engine=EngineSettings(adapter_slots=2, adapter_rank=1)))
OTHER = things.version("other", seed="d")
KNOWN = (BASE, PIRATE, SMALL, OTHER)


def refused(manifest: Manifest) -> str:
    """Return why a manifest is refused; empty where it is not."""
    try:
        rules.version_of(manifest, f"signatures/{digest_of(manifest)}", 0.0)
        adapters.check_registration(manifest, KNOWN)
    except ArtifactRefused as error:
        return error.message
    return ""


def of(base: str, rank: int = 8) -> AdapterSettings:
    return AdapterSettings(base=base, rank=rank)


def test_an_adapter_beside_its_base_is_registered() -> None:
    """What packaging writes is taken, and is a version like any other."""
    assert refused(GOOD) == ""


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (replace(GOOD, adapter=of("f" * 64)), "no version here has the digest"),
        (replace(GOOD, adapter=of("../x")), "by its whole digest"),
        (replace(GOOD, adapter=of(PIRATE.digest)), "an adapter itself"),
        (replace(GOOD, adapter=of(OTHER.digest)), "no slots for adapters"),
        (replace(GOOD, adapter=of(BASE.digest, 16)), "its rank is 16"),
        (replace(GOOD, adapter=of(BASE.digest, 0)), "its rank is 0"),
        (replace(GOOD, adapter=of(SMALL.digest)), "slots for ranks from 1 to 1"),
        (replace(GOOD, engine=replace(made.ENGINE, max_model_len=64)), "engine settings"),
        (replace(GOOD, files=(*GOOD.files[:2], replace(GOOD.files[2], sha256="f" * 64))), "its tokenizer"),
        (replace(GOOD, chat_template="other"), "its chat template"),
        (replace(GOOD, special_tokens=()), "its special tokens"),
        (replace(GOOD, sampling=SamplingDefaults(top_k=1)), "its sampling"),
        (replace(GOOD, files=GOOD.files[:2]), "an adapter consists of"),
        (replace(GOOD, files=(*GOOD.files, Artifact(path="x.json", sha256="a" * 64, size_bytes=1))), "consists of"),
        (replace(GOOD, task=Task.EMBED), "models that generate"),
        (replace(BASE.manifest, engine=EngineSettings(adapter_slots=2, adapter_rank=9)), "the engine makes slots"),
        (replace(BASE.manifest, engine=EngineSettings(adapter_slots=65, adapter_rank=8)), "not 1 to 64"),
        (replace(BASE.manifest, engine=EngineSettings(adapter_rank=8)), "adapter_slots is 0"),
    ],
)
def test_an_adapter_that_is_not_of_its_base_is_refused(bad: Manifest, why: str) -> None:
    """Another base, a rank too high, and whatever gateways would believe that its workers don't do: each is refused."""
    assert why in refused(bad)


def catalogue(*deployed: tuple[VersionId, int], named: VersionId = BASE.id) -> Catalogue:
    deployments = tuple(Deployment(version=version, replicas=replicas) for version, replicas in deployed)
    return Catalogue(versions=KNOWN, routes=(things.route("chat", named),), deployments=deployments)


@pytest.mark.parametrize(
    "known",
    [catalogue((BASE.id, 1), (PIRATE.id, 1)), catalogue((BASE.id, 1), named=PIRATE.id)],
    ids=["deployed", "named"],
)
def test_a_base_stays_while_an_adapter_of_it_is_used(known: Catalogue) -> None:
    """It can't be scaled to nothing under an adapter that is on, or that an alias leads to; to less it can."""
    with pytest.raises(Conflict, match=f"the adapter {PIRATE.id} is served by its workers"):
        adapters.check_scale(Deployment(version=BASE.id, replicas=0), known)
    adapters.check_scale(Deployment(version=BASE.id, replicas=1), known)
    adapters.check_scale(Deployment(version=OTHER.id, replicas=0), known)
    adapters.check_scale(Deployment(version=PIRATE.id, replicas=0), known)


def test_a_base_without_adapters_in_use_may_go() -> None:
    """An adapter that is off and nowhere named keeps nobody up."""
    adapters.check_scale(Deployment(version=BASE.id, replicas=0), catalogue((BASE.id, 1), (PIRATE.id, 0)))


def test_an_adapter_is_on_or_off() -> None:
    """It has no number of workers, and is on only where its base has some."""
    adapters.check_scale(Deployment(version=PIRATE.id, replicas=1), catalogue((BASE.id, 1)))
    with pytest.raises(InvalidField, match=r"1 \(on\) or 0 \(off\)"):
        adapters.check_scale(Deployment(version=PIRATE.id, replicas=2), catalogue((BASE.id, 1)))
    with pytest.raises(Conflict, match="its base has no workers"):
        adapters.check_scale(Deployment(version=PIRATE.id, replicas=1), catalogue((BASE.id, 0)))


def test_nobody_restarts_an_adapter() -> None:
    """The remedy names its base, whose workers they are."""
    adapters.check_renewal(BASE.id, KNOWN)
    with pytest.raises(Conflict, match=f"penstock restart {BASE.id}"):
        adapters.check_renewal(PIRATE.id, KNOWN)


def test_one_slot_is_never_pinned() -> None:
    """With as many adapters pinned as slots nobody else's would be served; off ones, and other bases', don't count."""
    other = made.version("json", seed="d")
    on = tuple(Deployment(version=one.id, replicas=1, pinned=one is PIRATE) for one in (BASE, PIRATE, other))
    known = Catalogue(versions=(BASE, PIRATE, other), deployments=on)
    for version in (PIRATE.id, BASE.id):
        adapters.check_pin(version, known)
    with pytest.raises(Conflict, match=f"2 slots .* so 1 can be pinned .now: {PIRATE.id}.: unpin one first"):
        adapters.check_pin(other.id, known)
    off = replace(known, deployments=(on[0], replace(on[1], replicas=0), on[2]))
    adapters.check_pin(other.id, off)
    assert (known.pinned_adapters, off.pinned_adapters) == ({BASE.id: (PIRATE.id,)}, {})
    assert [set(one.kept) for one in (known, off)] == [{BASE.id}, set()]
