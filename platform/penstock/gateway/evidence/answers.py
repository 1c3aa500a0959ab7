"""Reads the evidence from one answer: times, price, usability by a program, and whether a safety pack ended it.

Usability counts only if the caller left the answer's end to the model (``calls/wishes.py``). Queue time is excluded,
since a tenant's own flood causes it.
"""

from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import TenantId
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.rollout.arms import Stratum, bucket, dearness, price_bucket, stratum
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.calls.wishes import BOUNDS, leaves_end
from penstock.gateway.evidence.totals import Totals

EMPTY_TOKENS = 1
"""Tokens of an empty answer: only its end token."""
COUNTED = frozenset({Outcome.OK, Outcome.FILTERED})


def count(totals: Totals, call: Call, answer: Answer, version: VersionEntry, worker: WorkerEntry) -> None:
    usage, seconds = answer.usage, call.timings.seconds
    totals.ends["shown"] += 1
    if answer.outcome is Outcome.FILTERED:
        totals.spoil(_tenant(call), "filtered")
        return
    where = stratum(usage.prompt_tokens - usage.cached_tokens, _beside(call, worker))
    first_s = seconds.get(Stage.PREFILL) or seconds.get(Stage.COMPUTE)
    if first_s:
        totals.time(totals.ttft, where, bucket(first_s))
    if usage.output_tokens > 1:
        itl_s = sum(answer.itl_s) / len(answer.itl_s) if answer.itl_s else _decoding(seconds, usage.output_tokens)
        if itl_s:
            totals.time(totals.itl, where, bucket(itl_s))
    _priced(totals, call, usage, version)
    if call.request.api.generates:
        _worth(totals, call, answer)


def _priced(totals: Totals, call: Call, usage: Usage, version: VersionEntry) -> None:
    """A caller's price counts if only the model decides the length, a copy's relative to its original's. No cached
    tokens are assumed: a candidate's cache is cold.
    """
    units = version.price.uncached(prompt=usage.prompt_tokens, output=usage.output_tokens)
    if call.copy is None:
        where, place = Stratum(call.request.cost.body_bytes.bit_length(), 0), price_bucket(units)
        is_free = not call.request.api.generates or leaves_end(call.request.body)
        if is_free and totals.time(totals.price, where, place):
            totals.pay(call.principal.tenant, (where, place))
    elif call.copy.paid is not None and usage.exact:
        step = dearness(units, call.copy.paid)
        totals.paired[step] += 1
        totals.pay(call.copy.tenant, step)


def _worth(totals: Totals, call: Call, answer: Answer) -> None:
    ends, body, is_cut = totals.ends, call.request.body, answer.finish is FinishReason.LENGTH
    tenant = _tenant(call)
    is_json = answer.is_json() if answer.finish is FinishReason.STOP else None  # a cut one is counted as cut
    ends["json asked"] += is_json is not None
    if is_json is False:
        totals.spoil(tenant, "json_broken")
    if not leaves_end(body, BOUNDS):
        return
    ends["answers"] += 1
    if answer.usage.output_tokens <= EMPTY_TOKENS and not is_cut:
        totals.spoil(tenant, "empty")
    if is_cut and all(body.get(name) is None for name in BOUNDS):
        totals.spoil(tenant, "cut")


def _tenant(call: Call) -> TenantId:
    return call.principal.tenant if call.copy is None else call.copy.tenant


def _beside(call: Call, worker: WorkerEntry) -> int:
    load = call.attempts.report.load
    return worker.load.running if load is None else max(0, load.running - 1)


def _decoding(seconds: dict[Stage, float], tokens: int) -> float:
    return seconds.get(Stage.DECODE, 0.0) / (tokens - 1)
