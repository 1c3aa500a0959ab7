"""Batch too small: requests queue for slots while the GPUs are partly idle.

Only the GPUs' utilisation separates it from saturated engines; without it the case stays open.
"""

from penstock.diagnosis.cases.fullest import device_busy, engine_of, kv_used, queueing, slots_used
from penstock.diagnosis.evidence import Case, Cost, Judgement, Sense, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.serving.slo import Indicator

FULL_RATIO = 0.75
IDLE_DEVICE_RATIO = 0.6
"""Busy part of the time below which a GPU has room for more sequences in each step."""
KV_ROOM_RATIO = 0.7
"""Free part of the KV blocks, which more sequences need too."""

REMEDIES = (
    remedy(
        "Give the batch more slots, and the old version's traffic to the new one.",
        Cost.NEW_VERSION,
        "penstock models push SOURCE --name NAME --price PRICE --licence LICENCE --engine max_num_seqs=64 --workers 1",
        setting="max_num_seqs",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    engine = engine_of(snapshot)
    return Judgement(
        case=Case.BATCH_TOO_SMALL,
        says="The batch has too few slots: requests wait while the GPUs idle.",
        subject=engine.version,
        harms=(Indicator.TTFT, Indicator.LATENCY, Indicator.AVAILABILITY),
        brings=frozenset({Case.STARVED_TENANTS}),
        evidence=(
            queueing(engine),
            slots_used(engine, "all slots of the batch are taken", FULL_RATIO),
            device_busy(engine, "the GPUs idle", IDLE_DEVICE_RATIO, Sense.BELOW),
            kv_used(engine, "the KV cache has room for more sequences", KV_ROOM_RATIO, Sense.BELOW),
        ),
        remedies=REMEDIES,
    )
