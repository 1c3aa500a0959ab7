"""A version's peak, from the requests that the ledger holds: its busiest minute, and mean lengths. Pure.

Trade-off: requests that were refused are in no ledger, so a fleet that was too small shows a peak that was served.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from penstock.domain.errors import ArtifactRefused

MINUTE_S = 60.0
"""A peak lasts at least a minute: shorter bursts are the target load's."""


class Asked(NamedTuple):
    """A request of the past: Unix seconds, prompt tokens that no cache had, output tokens."""

    at: float
    prompt_tokens: int
    output_tokens: int


class Traffic(NamedTuple):
    requests_per_s: float
    """Of the busiest minute."""
    prompt_tokens: int
    output_tokens: int
    requests: int


def busiest(requests: Iterable[Asked], version: str) -> Traffic:
    """Return the peak; raises ``ArtifactRefused`` without a request that gave an answer."""
    minutes, prompts, outputs = Counter[int](), 0, 0
    for one in requests:
        if one.output_tokens > 0:
            minutes[int(one.at // MINUTE_S)] += 1
            prompts += one.prompt_tokens
            outputs += one.output_tokens
    if not (count := minutes.total()):
        raise ArtifactRefused(f"the ledger has no answers of {version} in that time: give --peak")
    return Traffic(
        requests_per_s=max(minutes.values()) / MINUTE_S,
        prompt_tokens=max(1, round(prompts / count)),
        output_tokens=max(1, round(outputs / count)),
        requests=count,
    )
