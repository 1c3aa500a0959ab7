"""KV-bound: the KV cache is full before the batch is, so requests wait, or are preempted, for lack of blocks.

Blocks booked by the gate count like used ones: if bookings fill the cache and blocks stay free, expected answers are
too long.
"""

from penstock.diagnosis.cases.fullest import engine_of, kv_used, queueing, slots_used
from penstock.diagnosis.evidence import AnyOf, Case, Cost, Judgement, Sense, any_of, at_least, remedy
from penstock.diagnosis.snapshot import EngineFigures, Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

FULL_RATIO = 0.9
FREE_SLOTS_RATIO = 0.8
"""Free slots below which slots are as scarce as blocks."""

REMEDIES = (
    remedy(
        "Bound the length of the heaviest tenant's answers: fewer blocks are booked for them.",
        Cost.NOTHING,
        "penstock tenants plan TENANT max_output_tokens=512",
    ),
    remedy(
        "Give the KV cache more memory, or requests a shorter context.",
        Cost.NEW_VERSION,
        "penstock models push SOURCE --name NAME --price PRICE --licence LICENCE"
        " --engine kv_cache_bytes=17179869184 --engine max_model_len=4096 --workers 1",
        setting="kv_cache_bytes",
    ),
    remedy(
        "Spread the weights over more GPUs: the memory that they leave free is KV cache.",
        Cost.CAPACITY,
        "penstock models push SOURCE --name NAME --price PRICE --licence LICENCE --gpus 2 --workers 1",
        setting="tensor_parallel_size",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    engine = engine_of(snapshot)
    return Judgement(
        case=Case.KV_BOUND,
        says="The KV cache is full: sequences wait for blocks while the batch has room.",
        subject=engine.version,
        harms=(Indicator.TTFT, Indicator.ITL, Indicator.LATENCY, Indicator.AVAILABILITY),
        brings=frozenset({Case.ENGINE_SATURATED}),
        evidence=(
            _full(engine),
            _held_up(engine),
            slots_used(engine, "the batch has free slots", FREE_SLOTS_RATIO, Sense.BELOW),
        ),
        remedies=REMEDIES,
    )


def _full(engine: EngineFigures) -> AnyOf:
    return any_of(
        kv_used(engine, "the engines use their KV blocks", FULL_RATIO),
        at_least("the queue has booked them", names.DOOR_SATURATION.name, engine.saturation, FULL_RATIO),
    )


def _held_up(engine: EngineFigures) -> AnyOf:
    return any_of(
        queueing(engine),
        at_least("running requests are put back for lack of blocks", names.PREEMPTIONS.name, engine.preemptions, 1.0),
    )
