"""Sampled picks in virtual time: what looking at a few workers does to callers, against looking at all."""

import gzip
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.gateway.routing import SampleSettings
from tests.support.gateways.simulated_fleet import EVERYBODY, Ask, Fleet, Pace, Seen

TRACE = Path(__file__).resolve().parents[3] / "shared/traces/mooncake_conversation.jsonl.gz"
BUCKET_S = 3.0
"""The trace's arrivals are rounded to this."""
BLOCK = 512
REQUESTS = 6_000
PER_WORKER_S, SPAN_S = 12.0, 12.0


def poisson(workers: int, seed: int) -> Iterator[Ask]:
    """Yield independent requests of very unlike lengths."""
    chance, now = random.Random(seed), 0.0
    while (now := now + chance.expovariate(PER_WORKER_S * workers)) < SPAN_S:
        prompt = max(1, min(8_000, int(chance.lognormvariate(6.7, 0.85))))
        yield Ask(at=now, prompt_tokens=prompt, output_tokens=max(1, int(chance.expovariate(1 / 211))))


def test_a_sample_waits_no_longer_than_the_scan_of_all(record_property: Callable[[str, object], None]) -> None:
    """64 workers, four gateways, loads a second old: the p99 to the first token is not above the full scan's."""
    found = {}
    for name, sample in (("drawn", SampleSettings()), ("all", EVERYBODY)):
        whole = Seen()
        for seed in range(3):
            fleet = Fleet(64, 4, sample, pace=Pace(), block_size=16, seed=seed)
            whole.ttft_s += fleet.play(poisson(64, seed)).ttft_s
        found[name] = {q: whole.quantile(q) for q in (0.5, 0.99)}
    record_property("ttft_s", found)
    assert found["drawn"][0.99] <= found["all"][0.99]
    assert found["drawn"][0.5] <= 1.02 * found["all"][0.5]


def test_waiting_hangs_on_load_and_not_on_size() -> None:
    """At the same load per worker the p99 to the first token is alike with 50 and with 250 workers."""
    small, large = (
        Fleet(size, 4, SampleSettings(), pace=Pace(), block_size=16, seed=1).play(poisson(size, 1)).quantile(0.99)
        for size in (50, 250)
    )
    assert large < 1.1 * small


def mooncake() -> Iterator[Ask]:
    """Yield half an hour of real conversations, arrivals spread within their bucket (Mooncake, FAST'25, Apache-2.0)."""
    chance = random.Random(5)
    with gzip.open(TRACE, "rt") as lines:
        rows = [json.loads(line) for line in itertools.islice(lines, REQUESTS)]
    for at, bucket in itertools.groupby(rows, key=lambda row: row["timestamp"]):
        together = list(bucket)
        for offset, row in zip(sorted(chance.uniform(0, BUCKET_S) for _ in together), together, strict=True):
            yield Ask(
                at=at / 1e3 + offset,
                prompt_tokens=row["input_length"],
                output_tokens=row["output_length"],
                blocks=tuple(row["hash_ids"]),
            )


@pytest.mark.skipif(not TRACE.exists(), reason="the Mooncake trace is not beside the repository")
@pytest.mark.parametrize("gateways", [1, 4])
def test_a_sample_finds_the_prefixes_that_the_scan_finds(
    gateways: int, record_property: Callable[[str, object], None]
) -> None:
    """On half an hour of real conversations the engines' caches are hit at least 98 % as often as with all."""
    drawn, scanned = (
        Fleet(32, gateways, sample, pace=Pace(cached_blocks=900), block_size=BLOCK, seed=2).play(mooncake())
        for sample in (SampleSettings(), EVERYBODY)
    )
    record_property("hits", {"drawn": drawn.hit_blocks, "all": scanned.hit_blocks, "blocks": drawn.blocks})
    assert drawn.hit_blocks >= 0.98 * scanned.hit_blocks > 0
