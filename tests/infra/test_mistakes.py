"""Realistic mistakes on the graph, judged by what would not work; nothing is wrong with the shipped environments."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.policy.registry import INVARIANTS
from infra.policy.settings import rows
from tests.infra import edits
from tests.infra.model.judge import Held, faults, ruled

MISTAKES: dict[str, list[list[Any]]] = yaml.safe_load(
    Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8")
)
LEAST_RATIO = 0.95
ASKED_FOR = 40


def spoiled(captures: tuple[Capture, ...], row: list[Any]) -> tuple[Capture, ...]:
    """The captures with one mistake."""
    stack, name, *given = row
    told = given.pop() if given and isinstance(given[-1], dict) and name in edits.BY_NAME else {}
    label = stack if stack in ("global", "mesh") else f"{stack}-us-east-1"
    spoil = getattr(edits, name)(*given, **told)
    return tuple(replace(one, graph=spoil(one.graph)) if one.label == label else one for one in captures)


Spoilt = list[tuple[str, list[Any], tuple[Capture, ...]]]


@pytest.fixture(scope="module")
def spoilt(captures: tuple[Capture, ...]) -> Spoilt:
    """Each mistake's kind and row, with the captures that have it."""
    return [(kind, row, spoiled(captures, row)) for kind, found in MISTAKES.items() for row in found]


@pytest.mark.parametrize("environment", ["prod", "dev"])
def test_nothing_is_wrong(
    fleet: Fleet, captures: tuple[Capture, ...], small: Fleet, small_captures: tuple[Capture, ...], environment: str
) -> None:
    """Each walk ends where it should, in each region of each shipped environment."""
    if environment == "prod":
        assert sorted(faults(fleet, captures)) == []
    else:
        # the cases of access name secrets and regions of prod
        assert [one for one in faults(small, small_captures) if not one.startswith("access: ")] == []


def test_mistakes_are_noticed(fleet: Fleet, spoilt: Spoilt, capsys: pytest.CaptureFixture[str]) -> None:
    """At least nineteen of twenty mistakes make a sentence; the table says how many of each kind."""
    told = [(kind, row, next(faults(fleet, found), None)) for kind, row, found in spoilt]
    killed = Counter(kind for kind, _, fault in told if fault)
    left = [f"{kind}: {row}" for kind, row, fault in told if not fault]
    table = [f"  {kind:16} {killed[kind]:3} of {len(found):3}" for kind, found in MISTAKES.items()]
    table += [f"  {'killed':16} {killed.total():3} of {len(spoilt):3}", *(f"  survived: {one}" for one in left)]
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *table, ""]))
    assert len(spoilt) >= ASKED_FOR
    assert killed.total() >= LEAST_RATIO * len(spoilt), left


def test_no_rule_is_beyond_failing(fleet: Fleet, captures: tuple[Capture, ...], spoilt: Spoilt) -> None:
    """Each rule of the pack that is no row, or speaks of pods, is broken by some mistake of the table."""
    told = {
        fault.partition(":")[0]
        for _, _, found in spoilt
        for one, before in zip(found, captures, strict=True)
        if one is not before
        for fault in ruled(Held(fleet, (one,)))
    }
    tabled = {row.id for row in rows() if not {"Pod", "Container"} & set(row.of)}
    assert {rule.id for rule in INVARIANTS} - tabled - told == set()


def test_a_sentence_names_what_would_not_work(fleet: Fleet, captures: tuple[Capture, ...]) -> None:
    """A probe of a page that says nothing of readiness is told in words, of its region alone."""
    row = ["region", "put", "TargetGroup", "gateway", "healthCheck/path", "/healthz"]
    found = list(faults(fleet, spoiled(captures, row)))
    assert found == ["us-east-1: request: the load balancer asks /healthz, which says nothing of readiness"]
