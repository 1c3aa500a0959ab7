"""Faults of a device or an item: the compute port's errors, quarantine by digest, a cap after out-of-memory.

An item counts as poisonous if it failed alone twice with others' successes between, so that a broken device quarantines
nothing (ADR 0043). Pure.
"""

from collections import OrderedDict
from dataclasses import dataclass

from penstock.domain.errors import BadRequest

QUARANTINE_S = 60.0
"""Seconds for which a poisonous item is not computed."""
SUSPECT_S = 600.0
"""Seconds for which a single failure is remembered."""
STRIKES = 2
MOST_SUSPECTS = 1024
RECOVERS_S = 60.0
"""Seconds in which a cap halved by lack of memory doubles again."""


class OutOfMemory(Exception):
    """The device has no memory for this batch; a smaller one may fit."""


class ComputeLost(Exception):
    """The process that computes batches is gone, with all its work."""


class Quarantined(BadRequest):
    """This input has made computing fail repeatedly: it is not tried again for a minute."""

    code = "quarantined"


@dataclass(slots=True)
class _Suspect:
    strikes: int
    at: float
    successes: int


class Quarantine:
    """Beyond a thousand suspects the least recently seen is dropped."""

    def __init__(self) -> None:
        self._suspects: OrderedDict[bytes, _Suspect] = OrderedDict()
        self._successes = 0

    def __len__(self) -> int:
        return len(self._suspects)

    def left_s(self, digest: bytes, now: float) -> float:
        suspect = self._suspects.get(digest)
        if suspect is None:
            return 0.0
        if suspect.strikes >= STRIKES:
            return max(0.0, suspect.at + QUARANTINE_S - now)
        return 0.0

    def succeeded(self) -> None:
        self._successes += 1

    def failed_alone(self, digest: bytes, now: float) -> None:
        if not digest:
            return
        suspect = self._suspects.pop(digest, None)
        if suspect is None or now - suspect.at > SUSPECT_S or suspect.strikes >= STRIKES:
            suspect = _Suspect(0, now, -1)
        if self._successes > suspect.successes:
            suspect.strikes += 1
        suspect.at, suspect.successes = now, self._successes
        self._suspects[digest] = suspect
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.popitem(last=False)


class MemoryCap:
    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._halved, self._at = float(whole), 0.0

    def halve(self, size: int, now: float) -> None:
        self._halved, self._at = max(1.0, size / 2), now

    def most(self, now: float) -> int:
        if self._halved >= self._whole:
            return self._whole
        doublings = (now - self._at) / RECOVERS_S
        return self._whole if doublings > self._whole else min(self._whole, int(self._halved * 2.0**doublings))
