"""A measured curve: its coefficients, its errors, and the machine's part in them."""

import datetime as dt
from collections.abc import Iterator

from penstock.views.elements import Record, Shown, Style, line, listing, prose

GOAL_MEDIAN, GOAL_P90 = 0.06, 0.15
"""Held-out errors of a good curve."""


def measured(version: str, found: Record) -> Iterator[Shown]:
    curve = found["curve"]
    yield line((version, Style.STRONG), f" on {curve['hardware']}, {found['worker']}")
    yield from of(curve)
    yield line(
        f"{found['steps']:,} steps in {found['rounds']} rounds and {found['seconds']:.0f} s; stored beside the version"
    )
    if found["is_busy"]:
        yield prose(
            f"The machine was busy: {curve['disturbed']:.0%} of the steps waited for a core and were left out. "
            "Measure again in a quiet hour for smaller errors.",
            Style.UNSURE,
        )
    if not found["is_whole"]:
        yield prose("The time was over before all rounds: give more --minutes for smaller errors.", Style.UNSURE)


def of(curve: Record) -> Iterator[Shown]:
    model = curve["model"]
    base = "max(fixed, token x tokens)" if model["rides"] else "fixed + token x tokens"
    rows = [
        ("fixed", f"{model['fixed_s'] * 1e3:.3f} ms", "of any step"),
        ("token", f"{model['token_s'] * 1e6:.2f} us", "of a token, prompt or decode"),
        ("sequence", f"{model['sequence_s'] * 1e6:.2f} us", "of a sequence that decodes"),
        ("context", f"{model['context_s'] * 1e9:.2f} ns", "of a token of context"),
        ("attention", f"{model['attention_s'] * 1e9:.3f} ns", "of a pair of prompt tokens"),
    ]
    yield listing(f"A step is {base} + the rest", ("part", "time", "of"), rows)
    day = dt.datetime.fromtimestamp(curve["measured_at"], dt.UTC)
    good = curve["error_median"] <= GOAL_MEDIAN and curve["error_p90"] <= GOAL_P90
    yield line(
        "error at held-out points: ",
        (f"{curve['error_median']:.1%} median, {curve['error_p90']:.1%} p90", Style.GOOD if good else Style.UNSURE),
        f", of {curve['points']} compositions, {day:%Y-%m-%d %H:%M} UTC",
    )
