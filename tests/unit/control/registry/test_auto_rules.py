"""What an auto alias may say: rules that some request can fit as things stand."""

from dataclasses import replace

import pytest

from penstock.control.registry.auto_rules import check_alias, check_auto, check_unled
from penstock.control.registry.rules import changes_to
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.ids import Alias
from penstock.domain.models.model import Manifest, ModelVersion, Task, digest_of, version_id
from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import MOST_AUTOS, Auto, Rule
from penstock.domain.serving.request import Api
from tests.support.samples import control_plane as things


def of(manifest: Manifest) -> ModelVersion:
    digest = digest_of(manifest)
    return ModelVersion(id=version_id(manifest.name, digest), digest=digest, manifest=manifest, created_at=0.0)


SMALL = things.version("small")
VECTORS = of(replace(things.manifest("vectors"), task=Task.EMBED))
OTHERS = of(replace(things.manifest("others"), task=Task.EMBED))
VERSIONS = (SMALL, VECTORS, OTHERS)
ROUTES = (things.route("chat", SMALL.id), things.route("vectors", VECTORS.id))
PLAIN = Rule(name="plain", to=Alias("chat"))


def check(*rules: Rule, alias: str = "auto", autos: tuple[Auto, ...] = ()) -> Auto:
    return check_auto(Auto(alias=Alias(alias), rules=rules), VERSIONS, ROUTES, autos)


def test_rules_that_something_fits_are_taken() -> None:
    """Aliases and pinned versions, chats beside embeddings of one model."""
    pinned = replace(PLAIN, name="pinned", to=Alias(SMALL.id), apis=(Api.CHAT,), price=MicroUsd(300))
    vectors = Rule(name="vectors", to=Alias("vectors"))
    assert check(PLAIN, pinned, vectors).rules == (PLAIN, pinned, vectors)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"apis": (Api.EMBEDDINGS,)}, "answers none of its APIs"),
        ({"price": MicroUsd(299)}, "costs more"),
        ({"tools": True}, "taught no tool calls"),
        ({"to": Alias("gone")}, "no alias and no version"),
        ({"to": Alias("auto")}, "has rules itself"),
    ],
)
def test_a_rule_that_fits_nothing_is_refused(changes: dict[str, object], says: str) -> None:
    """An operator hears it at once, and not from a caller."""
    with pytest.raises(InvalidField, match=says):
        check(replace(PLAIN, **changes))  # type: ignore[arg-type]


def test_vectors_of_two_models_are_never_mixed() -> None:
    """Which model answers would depend on a text's length, and vectors of two can't be compared."""
    both = [Rule(name=f"v{n}", to=Alias(one.id)) for n, one in enumerate((VECTORS, OTHERS))]
    with pytest.raises(InvalidField, match="can't be compared"):
        check(*both)
    assert len(check(both[0], replace(both[1], to=Alias("chat"))).rules) == 2


def test_a_comparison_is_of_two_versions_that_both_write_or_classify() -> None:
    """Of one model under two names, or of a model that embeds, nothing would ever be told."""
    compared = replace(PLAIN, name="rest", compare="plain")
    for rule, other, says in (
        (replace(compared, to=Alias(SMALL.id)), PLAIN, "are one version"),
        (replace(compared, to=Alias("vectors")), PLAIN, "that write, or that classify"),
        (replace(compared, to=Alias(OTHERS.id)), replace(PLAIN, to=Alias("vectors")), "that write, or that classify"),
    ):
        with pytest.raises(InvalidField, match=says):
            check(other, rule)


def test_names_are_unique_and_few() -> None:
    """A name that leads somewhere already, a strange one, and one more than there may be."""
    full = tuple(Auto(alias=Alias(f"a{n}"), rules=(PLAIN,)) for n in range(MOST_AUTOS))
    for alias, autos in (("chat", ()), ("Auto!", ()), ("auto", full)):
        with pytest.raises(InvalidField):
            check(PLAIN, alias=alias, autos=autos)
    assert check(PLAIN, alias="a0", autos=full).rules == (PLAIN,)


def test_what_rules_lead_to_stays() -> None:
    """An alias that a rule leads to can't be taken away, nor can one take an auto alias's name."""
    autos = (Auto(alias=Alias("auto"), rules=(PLAIN,)),)
    with pytest.raises(Conflict, match="plain of auto"):
        check_unled(Alias("chat"), autos)
    with pytest.raises(Conflict):
        check_alias(Alias("auto"), autos)
    check_unled(Alias("vectors"), autos)
    check_alias(Alias("chat"), autos)


def test_what_brings_old_rules_back() -> None:
    """Those that differ are set, those that were not there are taken away."""
    one, two = (Auto(alias=Alias(name), rules=(PLAIN,)) for name in ("a", "b"))
    other = replace(one, rules=(replace(PLAIN, name="other"),))
    assert changes_to((one, two), (other,)) == ((Alias("a"), other), (Alias("b"), None))
    assert changes_to((one,), (one,)) == ()
