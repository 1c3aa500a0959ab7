"""KV-bound: the KV cache is full before the batch is, so requests wait, or are put back, for lack of blocks.

The blocks that the door has booked count like those that the engine uses: if bookings fill the cache and blocks stay
free, answers are expected longer than they become.
"""

from penstock.diagnosis.cases.fullest import SOME_WAIT, engine_of, kv_used, slots_used
from penstock.diagnosis.evidence import AnyOf, Case, Check, Cost, Judgement, Remedy, Sense
from penstock.diagnosis.snapshot import EngineFigures, Snapshot
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

FULL_RATIO = 0.9
FREE_SLOTS_RATIO = 0.8
"""A batch that is fuller is as scarce as the blocks are."""

REMEDIES = (
    Remedy(
        says="Bound how long answers of the heaviest tenant may be: what is expected is what is booked.",
        cost=Cost.NOTHING,
        command="penstock tenants plan TENANT max_output_tokens=512",
    ),
    Remedy(
        says="Give the KV cache more memory, or requests a shorter context.",
        cost=Cost.NEW_VERSION,
        command="penstock models push SOURCE --name NAME --price PRICE --licence LICENCE"
        " --engine kv_cache_bytes=17179869184 --engine max_model_len=4096 --workers 1",
        setting="kv_cache_bytes",
    ),
    Remedy(
        says="Spread the weights over more GPUs: what they leave free is KV cache.",
        cost=Cost.CAPACITY,
        command="penstock models push SOURCE --name NAME --price PRICE --licence LICENCE --gpus 2 --workers 1",
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
    return AnyOf(
        checks=(
            kv_used(engine, "the engines use their KV blocks", FULL_RATIO),
            Check(
                says="the door has booked them",
                metric=names.DOOR_SATURATION.name,
                value=engine.saturation,
                limit=FULL_RATIO,
            ),
        )
    )


def _held_up(engine: EngineFigures) -> AnyOf:
    return AnyOf(
        checks=(
            Check(
                says="requests wait at the engines' doors",
                metric=names.DOOR_WAITING.name,
                value=engine.waiting,
                limit=SOME_WAIT,
            ),
            Check(
                says="running requests are put back for lack of blocks",
                metric=names.PREEMPTIONS.name,
                value=engine.preemptions,
                limit=1.0,
            ),
        )
    )
