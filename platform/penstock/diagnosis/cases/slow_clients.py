"""Slow clients: answers wait for slow readers, and hold slots and KV blocks meanwhile.

The gaps between their tokens look like a slow engine; the time spent waiting for readers separates the two.
"""

from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, any_of, at_least, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

PAUSED_PART = 0.2
"""Part of the time of writing answers that is spent on slow readers: a little is normal."""

REMEDIES = (
    remedy(
        "Find the tenants that read slowly: their requests end as slow_reader.",
        Cost.NOTHING,
        "penstock usage show TENANT",
    ),
    remedy(
        "Bound how many streams such a tenant may have at a time.",
        Cost.NOTHING,
        "penstock tenants plan TENANT max_streams=20",
    ),
    remedy(
        "Buffer more of an answer for its reader, or disconnect earlier a client that reads nothing.",
        Cost.RESTART,
        setting="PENSTOCK_STREAM_BUFFER_BYTES",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    return Judgement(
        case=Case.SLOW_CLIENTS,
        says="Answers wait for clients who read too slowly.",
        harms=(Indicator.ITL, Indicator.STREAM_COMPLETION),
        brings=frozenset({Case.PREFILL_INTERFERENCE}),
        evidence=(
            any_of(
                at_least(
                    "streams wait for their readers, of the time that answers take",
                    names.READER_PAUSED_SECONDS.name,
                    _paused(snapshot),
                    PAUSED_PART,
                    Unit.RATIO,
                ),
                at_least(
                    "readers are cut off because they take nothing",
                    f'{names.REQUESTS.name}{{outcome="slow_reader"}}',
                    snapshot.faults.slow_readers,
                    1.0,
                ),
            ),
        ),
        remedies=REMEDIES,
    )


def _paused(snapshot: Snapshot) -> float | None:
    decode_s = snapshot.tokens.decode_s
    if snapshot.paused_s is None or not decode_s:
        return None
    return snapshot.paused_s / max(decode_s, snapshot.paused_s)
