"""What came of each request, one line each: the only thing that verdict and report are made from.

Times are seconds since the run began. No text of prompts or answers is kept.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec


class End(StrEnum):
    """How a request ended, as its caller saw it."""

    WHOLE = "whole"
    """With all of its answer: a stream with its proper end."""
    REFUSED = "refused"
    """429 or 503: never started."""
    WRONG = "wrong"
    """Another 4xx: the caller's fault."""
    FAILED = "failed"
    """Another 5xx."""
    BROKEN = "broken"
    """The connection, or a stream without its proper end."""
    LATE = "late"
    """Not whole within the time that the caller waits."""
    LEFT = "left"
    """The caller hung up, as planned."""


class Record(msgspec.Struct, kw_only=True):
    tenant: str
    planned_at: float
    """Every latency counts from here."""
    began_at: float
    """When it was really begun; the difference is the generator's own lag."""
    is_first: bool = True
    """False for later turns of a session, whose time is set by the answer before."""
    unary: bool = False
    slow: bool = False
    planned_tokens: int = 0
    first_at: float | None = None
    ended_at: float = 0.0
    gaps_s: list[float] = []
    """Between its pieces of text as they came."""
    end: End = End.BROKEN
    status: int = 0
    """0 where no status came."""
    code: str = ""
    """The target's own word for an error."""
    retry_after_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """As the target's usage says; None where it says nothing."""
    request_id: str = ""

    @property
    def lag_s(self) -> float:
        """How late it was begun."""
        return self.began_at - self.planned_at

    @property
    def ttft_s(self) -> float | None:
        """Seconds from its planned time to its first text."""
        return None if self.first_at is None else self.first_at - self.planned_at

    @property
    def whole_s(self) -> float:
        """Seconds from its planned time to its end."""
        return self.ended_at - self.planned_at


class Health(msgspec.Struct, kw_only=True):
    """How well the generator itself kept time: its plan's size, whether it came through, and its pulses."""

    sessions: int
    """In the plan."""
    began_at: float = 0.0
    """The machine's monotonic time when the run began."""
    held: int = 0
    """Of these, how many were begun and came to an end."""
    pulses: list[tuple[float, float]] = []
    """When a pulse was due, and how late it was: the time for which nothing could be sent or stamped."""


def write(path: Path, items: Iterable[msgspec.Struct]) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as out:
        for item in items:
            out.write(encoder.encode(item) + b"\n")


def read(path: Path) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(Record)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield decoder.decode(line)
