"""A version's peak by the ledger: the requests of its busiest minute, and their mean lengths. Pure.

Trade-off: refused requests are not in the ledger, so the peak of a fleet that was too small is only the part that it
served.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from penstock.domain.errors import ArtifactRefused

MINUTE_S = 60.0
"""A peak lasts at least a minute: shorter bursts are the target load's."""


class Asked(NamedTuple):
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
    """Return the peak; raises ``ArtifactRefused`` if no request of the version had an answer."""
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
