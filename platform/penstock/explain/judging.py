"""The objectives that apply to a request, whether it met them, and its cost. Pure.

Ends caused by the caller (disconnect, a limit, a bad request) are judged by no objective.
"""

from typing import NamedTuple

from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome, Stage, outcome_of
from penstock.domain.serving.request_record import RequestRecord
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.ledger import cost_of
from penstock.domain.tokens import Usage


class Judged(NamedTuple):
    """One objective applied to a request: the bound in seconds (None without one), the measured value, and whether that
    is good.

    Some gaps between tokens may be ``late``: then ``got_s`` is the longest.
    """

    indicator: Indicator
    within_s: float | None
    got_s: float | None
    is_good: bool
    late: int | None = None
    of: int = 0
    most_late_ratio: float = 0.0


def judged(record: RequestRecord) -> tuple[Judged, ...]:
    if record.is_own is None and record.outcome != Outcome.OK:
        return ()
    reason = record.refusal.reason if record.refusal is not None else None
    outcome = outcome_of(Outcome(record.outcome), reason, is_own=bool(record.is_own))
    promised, ours = record.promised, outcome.spends_error_budget
    if promised is None or not (ours or outcome is Outcome.OK):
        return ()
    has_begun, whole = record.ttft_s is not None, None if record.stream or ours else _ours_s(record)
    found = [Judged(Indicator.AVAILABILITY, None, None, not ours)]
    if has_begun:
        found.append(Judged(Indicator.STREAM_COMPLETION, None, None, not ours))
    ttft_s, itl_s, latency_s = promised
    found += _timed(Indicator.TTFT, ttft_s, record.ttft_s if record.visible_s is None else record.visible_s)
    found += _gaps(record, itl_s)
    found += _timed(Indicator.LATENCY, latency_s, whole)
    return tuple(found)


def _ours_s(record: RequestRecord) -> float:
    return record.seconds - record.stages_s.get(Stage.UPLOAD, 0.0)


def _timed(indicator: Indicator, within_s: float, got_s: float | None) -> list[Judged]:
    return [Judged(indicator, within_s, got_s, got_s <= within_s)] if within_s and got_s is not None else []


def _gaps(record: RequestRecord, within_s: float) -> list[Judged]:
    """Judge a stream's gaps individually, as the objective counts them; old records lack the number of late gaps.

    One long gap does not break an objective that allows a share of late gaps.
    """
    longest_s, late = record.longest_gap_s, record.late_gaps
    if not within_s or longest_s is None:
        return []
    if late is None or not record.gaps:
        return _timed(Indicator.ITL, within_s, longest_s) if longest_s <= within_s else []
    is_good = late <= record.most_late_ratio * record.gaps
    return [Judged(Indicator.ITL, within_s, longest_s, is_good, late, record.gaps, record.most_late_ratio)]


def cost(record: RequestRecord) -> MicroUsd:
    """Return the ledger row's cost: 0 for a request that never ran or could not be counted."""
    if record.price is None:
        return MicroUsd(0)
    prompt, cached, output = map(MicroUsd, record.price)
    took = Usage(
        prompt_tokens=record.prompt_tokens or 0,
        cached_tokens=record.cached_tokens or 0,
        output_tokens=record.output_tokens or 0,
    )
    return cost_of(Price(prompt_per_mtok=prompt, cached_per_mtok=cached, output_per_mtok=output), took)
