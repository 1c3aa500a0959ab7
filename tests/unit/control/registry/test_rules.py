"""What may be registered, and what an alias may be."""

from dataclasses import replace

import pytest

from penstock.control.registry import rules
from penstock.domain.errors import ArtifactRefused, InvalidField
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, Share
from penstock.domain.fleet.versions import Deployment
from penstock.domain.ids import ModelName, VersionId
from penstock.domain.models.model import EngineSettings, Manifest, digest_of
from tests.support.samples import control_plane as things

GOOD = things.manifest()
FILE = GOOD.files[1]


def signed(manifest: Manifest) -> str:
    return f"signatures/{digest_of(manifest)}"


def test_a_version_is_named_by_its_content() -> None:
    """The same manifest gives the same version id, another one another."""
    one = rules.version_of(GOOD, signed(GOOD), 5.0)
    assert one.id == f"tiny@{digest_of(GOOD)[:12]}"
    assert one.digest == digest_of(GOOD)
    assert one.created_at == 5.0
    other = things.manifest(seed="c")
    assert rules.version_of(other, signed(other), 5.0).id != one.id


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (replace(GOOD, price=things.price(0, 0, 0)), "price is 0"),
        (replace(GOOD, price=things.price(-1, 0, 5)), "prompt_per_mtok is -1"),
        (things.manifest(licence=" "), "name the weights' licence"),
        (replace(GOOD, files=()), "no files"),
        (replace(GOOD, files=(FILE, FILE)), "twice"),
        (replace(GOOD, name=ModelName("Bad Name")), "name"),
        (replace(GOOD, engine=EngineSettings(max_model_len=0)), "max_model_len is 0, not from 1"),
        (replace(GOOD, files=(replace(FILE, sha256="x"),)), "SHA-256"),
        *((things.manifest(path=f"weights{suffix}"), "run code") for suffix in sorted(rules.PICKLED)),
        (things.manifest(path="WEIGHTS.BIN"), "run code"),
        (things.manifest(path="weights.bin.safetensors"), "run code"),
        *((things.manifest(path=path), "not a path inside") for path in ("/etc/x", "../x", "a/../../x", "a\\b")),
    ],
)
def test_a_version_that_lacks_something_is_refused(bad: Manifest, reason: str) -> None:
    """No price, no licence, pickled files, paths that lead out: each is refused with its reason."""
    with pytest.raises(ArtifactRefused, match=reason):
        rules.version_of(bad, signed(bad), 0.0)


@pytest.mark.parametrize("signature", ["", "signatures/" + "0" * 64, digest_of(GOOD)])
def test_an_unsigned_version_is_refused(signature: str) -> None:
    """Without a signature of exactly this manifest there is no version."""
    with pytest.raises(ArtifactRefused, match="sign"):
        rules.version_of(GOOD, signature, 0.0)


A, B = VersionId("a@1"), VersionId("b@1")


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        (things.route("no such shape!", A), "alias has"),
        (things.route("chat", VersionId("unknown@1")), "no version"),
        (things.route("chat", A, A), "twice"),
        (Route(alias=things.route("chat", A).alias, shares=()), "add up"),
        (Route(alias=things.route("chat", A).alias, shares=(Share(version=A, weight=1),)), "add up"),
        (
            Route(
                alias=things.route("chat", A).alias,
                shares=(Share(version=A, weight=-1), Share(version=B, weight=WEIGHT_TOTAL + 1)),
            ),
            "at least 0",
        ),
    ],
)
def test_a_bad_route_is_refused(route: Route, reason: str) -> None:
    """A route that a table could not hold never gets into the registry."""
    with pytest.raises(InvalidField, match=reason):
        rules.check_route(route, frozenset({A, B}))


def test_a_good_route_passes() -> None:
    """A canary split over known versions is accepted."""
    route = Route(
        alias=things.route("chat", A).alias,
        shares=(Share(version=A, weight=9_900), Share(version=B, weight=100)),
    )
    assert rules.check_route(route, frozenset({A, B})) == route


@pytest.mark.parametrize("replicas", [-1, rules.MAX_REPLICAS + 1])
def test_a_deployment_has_a_sane_size(replicas: int) -> None:
    """Negative or absurd numbers of workers are refused."""
    with pytest.raises(InvalidField):
        rules.check_deployment(Deployment(version=A, replicas=replicas), frozenset({A}))


def test_changes_bring_back_old_routes() -> None:
    """Going back sets what differs, takes away what was not there, and leaves the rest alone."""
    now = (things.route("a", A), things.route("b", A), things.route("c", A))
    then = (things.route("a", B), things.route("b", A), things.route("d", A))
    assert rules.changes_to(now, then) == (("a", then[0]), ("c", None), ("d", then[2]))
