"""What public traces say of real traffic, as data: one file each in ``loadtests/fits``, with its source and licence.

``plan/fitting.py`` makes them; nothing here reads a trace.
"""

from pathlib import Path

import msgspec

from loadtests.plan.lengths import Quantiles

FOLDER = Path(__file__).parents[1] / "fits"


class Sharing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How prompts begin alike: all with a system prompt, and some by continuing an earlier one."""

    system_tokens: int
    continues_ratio: tuple[float, ...]
    """The share of prompts that begin with more of an earlier one than the system prompt: of the shortest part of all
    prompts, up to the longest, in equal parts."""
    shared_ratio: Quantiles
    """How much of such a prompt is the earlier one's."""
    requests_back: Quantiles
    """How many requests ago the earlier one came."""


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of a provider's clients: its share of all requests, and how bursty it is."""

    share: float
    cv: float


class Fit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trace's figures; lengths in tokens."""

    says: str
    source: str
    licence: str
    file: str
    requests: int
    prompt_tokens: Quantiles
    output_tokens: Quantiles
    arrivals_cv: float | None = None
    """None where the trace's clock is too coarse to tell."""
    sharing: Sharing | None = None
    hours: tuple[float, ...] = ()
    """The rates of a day's hours over their mean."""
    clients: tuple[Client, ...] = ()


def load(name: str) -> Fit:
    """Return a fit by its file's name, or raise ``ValueError`` with those that there are."""
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        raise ValueError(f"no fit is called {name!r}; there are {', '.join(names())}")
    return msgspec.yaml.decode(path.read_bytes(), type=Fit)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
