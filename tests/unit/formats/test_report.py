"""A gate's report on its way to the gateway."""

import json
from dataclasses import replace

import pytest

from penstock.domain.serving.report import SILENT, Adapted, Ahead, Batched, Load, Met, Report, Trigger, Used, Waited
from penstock.formats.report import MOST_BYTES, decode, encode

REPORT = Report(
    load=Load(running=3, waiting=2, queued_tokens=640, kv_used_ratio=0.25, wait_s=1.5),
    waited=Waited(
        predicted_s=0.5,
        waited_s=0.75,
        share=0.25,
        waiting=7,
        tenants=3,
        ahead=(Ahead(standing="interactive", own=1, others=4), Ahead(standing="batch", own=0, others=2)),
    ),
    adapted=Adapted(met=Met.QUEUED, waited_s=0.012345),
    batched=Batched(size=16, trigger=Trigger.DEADLINE, waited_s=12.5, prepared_s=1.25, computed_s=100.125),
    used=Used(prompt_tokens=30, cached_tokens=16, output_tokens=400, sequences=8, prompts=2, steps=50, beside=120),
)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        SILENT,
        Report(waited=Waited()),
        Report(waited=Waited(waited_s=1.0, share=None)),
        Report(used=Used(engine_us=0)),
        *(replace(REPORT, **{part: None}) for part in REPORT.__slots__),
    ],
)
def test_a_report_comes_through(report: Report) -> None:
    """As it was, with parts and figures that are unknown as unknown, in one line of bounded length."""
    value = encode(report)
    assert decode(value) == report
    assert len(value) < MOST_BYTES
    assert b"\n" not in value


@pytest.mark.parametrize(
    "value", [b"", b"nonsense", b"[]", b"3", b"1,0,64,0.1", b'{"load":1}', b"{" + b" " * 5_000 + b"}"]
)
def test_nonsense_says_nothing(value: bytes) -> None:
    """Also a value that is too long to be read."""
    assert decode(value) == SILENT


def damaged(part: str, **figures: object) -> bytes:
    """Return the report with these figures in one part."""
    parts = json.loads(encode(REPORT))
    parts[part] |= figures
    return json.dumps(parts).encode()


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("load", "running", "x"),
        ("load", "kv_used_ratio", -0.1),
        ("waited", "waited_s", -1.0),
        ("waited", "ahead", [{"standing": "paid"}]),
        ("adapted", "met", "magic"),
        ("adapted", "waited_s", -1),
        ("batched", "size", 0),
        ("batched", "trigger", "magic"),
        ("batched", "prepared_s", -1),
        ("used", "output_tokens", -3),
        ("used", "prompts", 1.5),
        ("used", "engine_us", -1),
    ],
)
def test_a_damaged_part_costs_no_other(part: str, name: str, value: object) -> None:
    """What can't be is unknown, and not 0; the rest of the report stands."""
    assert decode(damaged(part, **{name: value})) == replace(REPORT, **{part: None})


def test_a_newer_gate_may_say_more() -> None:
    """Parts and figures that come later don't hinder those that are known."""
    parts = json.loads(damaged("used", news=1)) | {"news": {"a": 1}}
    assert decode(json.dumps(parts).encode()) == REPORT


def test_no_more_is_cached_than_there_is() -> None:
    """The cached part of a prompt is a part of it."""
    used = decode(damaged("used", cached_tokens=99)).used
    assert used is not None
    assert used.cached_tokens == 30
