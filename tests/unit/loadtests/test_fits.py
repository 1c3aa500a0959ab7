"""The fitted distributions: what they say of themselves, and that the traces say the same where they are."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtests.plan import fits, fitting, traces
from loadtests.plan.fits import Fit
from loadtests.plan.lengths import Quantiles, distance, value_at
from loadtests.plan.prompts import Piece, Writer, length
from loadtests.plan.traces import Traced

TRACES = Path(os.environ.get("TRACES_DIR", Path(__file__).parents[4] / "shared" / "traces"))
with_traces = pytest.mark.skipif(not TRACES.exists(), reason="the public traces are not here (TRACES_DIR)")
FITS: dict[str, Callable[[Path], Fit]] = {
    "azure-conversation": fitting.azure,
    "mooncake-conversation": fitting.mooncake,
    "servegen-small": fitting.servegen,
}


def test_every_fit_is_one_that_can_be_made_again() -> None:
    """Each file of fits has a function that makes it from its trace."""
    assert fits.names() == sorted(FITS)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_names_source_and_licence_and_rises(name: str) -> None:
    """A fit says whose data it is under which licence, and its quantiles rise from 0 to 1."""
    fit = fits.load(name)
    assert fit.source
    assert fit.licence in {"CC-BY-4.0", "Apache-2.0"}
    for quantiles in (fit.prompt_tokens, fit.output_tokens):
        assert [*quantiles] == sorted(quantiles)
        assert [*quantiles.values()] == sorted(quantiles.values())
        assert (min(quantiles), max(quantiles)) == (0, 1)


def test_a_fit_that_is_not_there_is_refused_with_those_that_are() -> None:
    """The message lists the fits."""
    with pytest.raises(ValueError, match="there are azure-conversation, mooncake"):
        fits.load("burst-gpt")


def test_values_between_quantiles_lie_between_theirs() -> None:
    """A value between two quantiles lies on the line of their logarithms, and the ends are the ends."""
    quantiles: Quantiles = {0.0: 10, 0.5: 100, 1.0: 1000}
    assert [round(value_at(quantiles, p), 6) for p in (0, 0.25, 0.5, 0.75, 1)] == [10, 31.622777, 100, 316.227766, 1000]


@with_traces
@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_its_traces(name: str) -> None:
    """The shipped file is what the trace gives when it is fitted again."""
    assert FITS[name](TRACES) == fits.load(name)


@with_traces
@pytest.mark.slow
@pytest.mark.parametrize("name", ["azure-conversation", "mooncake-conversation"])
def test_drawn_lengths_are_distributed_as_the_traces_are(name: str) -> None:
    """Cumulative shares of drawn and real lengths differ by three hundredths at most, for prompts and answers."""
    fit = fits.load(name)
    asked, chance = traces.read(TRACES / fit.file), random.Random(1)
    assert distance(fit.prompt_tokens, [one.prompt_tokens for one in asked], chance) <= 0.03
    assert distance(fit.output_tokens, [one.output_tokens for one in asked], chance) <= 0.03


def test_a_wrong_distribution_is_found() -> None:
    """The distance of a distribution from a sample of twice its values is large."""
    quantiles: Quantiles = {0.0: 10, 1.0: 1000}
    chance = random.Random(1)
    real = [2 * value_at(quantiles, chance.random()) for _ in range(2000)]
    assert distance(quantiles, real, chance) > 0.1


def reused(prompts: list[tuple[Piece, ...]]) -> float:
    """Return the share of words that an endless prefix cache would have."""
    known: dict[str, int] = {}
    hit = 0
    for prompt in prompts:
        for name, words in prompt:
            hit += min(words, known.get(name, 0))
            if known.get(name, 0) < words:
                break
        known |= {name: max(words, known.get(name, 0)) for name, words in prompt}
    return hit / sum(map(length, prompts))


def reused_in(asked: list[Traced]) -> float:
    """Return the same for a trace, block by block."""
    known: set[int] = set()
    hit = 0
    for one in asked:
        whole = next((at for at, block in enumerate(one.blocks) if block not in known), len(one.blocks))
        hit += min(whole * traces.BLOCK_TOKENS, one.prompt_tokens)
        known.update(one.blocks)
    return hit / sum(one.prompt_tokens for one in asked)


@with_traces
@pytest.mark.slow
def test_drawn_prompts_share_as_much_as_the_trace_does() -> None:
    """An endless prefix cache finds the trace's share of all tokens, within four hundredths."""
    fit, chance = fits.load("mooncake-conversation"), random.Random(2)
    writer = Writer("one", fit.sharing, 1.0, chance)
    ranks = [chance.random() for _ in range(fit.requests)]
    prompts = [writer.prompt(round(value_at(fit.prompt_tokens, rank)), rank) for rank in ranks]
    assert reused(prompts) == pytest.approx(reused_in(traces.mooncake(TRACES / fit.file)), abs=0.04)
