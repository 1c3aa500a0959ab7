"""Tolerances as data: the shipped ones are read, and each thing that can be wrong in them is named."""

from copy import deepcopy
from typing import Any

import pytest
import yaml

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.rollout.judgement import Metric
from penstock.domain.serving.spec import SpecRefused
from penstock.judging.gates import ShareGate, parse


def shipped_data() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(slos.shipped("slo_rollout.yaml", "slo/rollout.yaml").read_bytes())
    return found


@pytest.mark.parametrize("tier", [Tier.CHAT, Tier.EMBEDDING, Tier.CLASSIC])
def test_the_shipped_tolerances_are_sound(tier: Tier) -> None:
    """Bad ends are tolerated up to the very burn that pages, by the tier's own promise."""
    gates = slos.gates(tier)
    assert 0.0 < gates.shares[Metric.BAD].floor < 0.5
    assert gates.shares[Metric.BAD].stands_alone
    assert gates.min_sample == 100


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("ranked", "ttft", "abort"), 0.5, "a mean rank from 0.55"),
        (("ranked", "itl", "promote"), 0.52, "the noise between equals"),
        (("ranked", "ttft", "abort"), 0.55, "must not be below hold"),
        (("ranked", "ttft", "brake"), float("nan"), "ranked.ttft.brake"),
        (("ranked", "itl", "aborts"), 0.6, "no such key"),
        (("ranked", "speed"), {}, "no such key"),
        (("shares", "bad", "burn"), 0, "above 0"),
        (("shares", "cut", "times"), 0.5, "1 or more"),
        (("shares", "cut", "hold"), 1.0, "a share below 1"),
        (("evidence", "abort"), 1, "odds above 1"),
        (("per_second", "abort"), -1, "above 0"),
        (("min_sample",), 0.5, "a count"),
        (("patience",), 1, "no such key"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(place: tuple[str, ...], value: object, says: str) -> None:
    """A tolerance that tolerates nothing, or sides that cross, never judge anything."""
    data = deepcopy(shipped_data())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(SpecRefused, match=r"x\.yaml") as caught:
        parse(data, "x.yaml", error_budget_ratio=0.001)
    assert says in str(caught.value)


def test_what_is_missing_is_named() -> None:
    """No tolerance has a default."""
    data = shipped_data()
    del data["ranked"]["itl"]["hold"]
    with pytest.raises(SpecRefused, match=r"ranked\.itl\.hold: is missing"):
        parse(data, "x.yaml", error_budget_ratio=0.001)


def test_a_share_is_held_against_the_incumbents_own() -> None:
    """At least the floor; without anybody to compare with, only a promise judges."""
    gate = ShareGate(floor=0.01, times=2.0, hold=0.05, abort=0.1)
    assert gate.mean(0.0, 0.05) == 0.05
    assert gate.mean(0.2, 0.05) == 0.4
    assert gate.mean(0.9, 0.1) == 0.95
    assert gate.mean(None, 0.05) is None
    assert ShareGate(floor=0.01, times=2.0, hold=0.0, abort=0.0, stands_alone=True).mean(None, 0.0) == 0.01
