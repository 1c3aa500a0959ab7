"""CPU idle and GPUs saturated: requests queue for full engines, while the stages before have room.

The gate bounds slots, prompt tokens in prefill, booked KV blocks and the tenants' shares. So a queue at the gate is
evidence by itself if requests are refused, or wait longer than promised.
"""

from dataclasses import replace
from math import floor

from penstock.diagnosis.cases.fullest import device_busy, engine_of, kv_used, queueing, slots_used
from penstock.diagnosis.evidence import Case, Cost, Judgement, Remedy, Sense, Unit, any_of, at_least, below, remedy
from penstock.diagnosis.snapshot import EngineFigures, Snapshot
from penstock.domain.errors import Overloaded
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

FULL_RATIO = 0.75
"""Part of the batch's slots: a gate fills a slot as soon as it is free, so only starts and ends leave it below 1."""
BUSY_RATIO = 0.8
"""Busy part of the time; below it, kernels wait for something other than the GPU."""
IDLE_LOOP_RATIO = 0.7
KV_FULL_RATIO = 0.9
REFUSED_RATIO = 0.01
"""Refused part of requests: ten times the error budget of a 99.9 % objective."""
BEYOND_PROMISE = 1.0
"""Mean wait in parts of the promised time to a first token or whole answer."""
TIMED = (Indicator.TTFT, Indicator.LATENCY)
"""Objectives that a wait before the first token affects."""

SOONER = (
    remedy(
        "Let tenants who prefer it have shorter answers under pressure.",
        Cost.NOTHING,
        "penstock tenants plan TENANT degrade_output_tokens=256",
    ),
    remedy(
        "Let interactive requests go before batch work.",
        Cost.NOTHING,
        "penstock tenants plan TENANT priority=batch",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    engine = engine_of(snapshot)
    return Judgement(
        case=Case.ENGINE_SATURATED,
        says=_says(engine) + _who(snapshot),
        subject=engine.version,
        harms=(Indicator.TTFT, Indicator.ITL, Indicator.LATENCY, Indicator.AVAILABILITY),
        brings=frozenset({Case.CPU_TAKEN}),
        evidence=(
            queueing(engine),
            any_of(
                slots_used(engine, "the engines' batches are full", FULL_RATIO),
                device_busy(engine, "the GPUs compute", BUSY_RATIO),
                at_least(
                    "requests are refused as overloaded",
                    f'{names.REFUSALS.name}{{code="{Overloaded.code}"}}',
                    snapshot.faults.overloaded_ratio,
                    REFUSED_RATIO,
                    Unit.RATIO,
                ),
                at_least(
                    "the wait in the queue alone takes the promised time",
                    f'{names.GATE_SECONDS.name}{{stage="queue"}}',
                    _of_promise(snapshot, engine),
                    BEYOND_PROMISE,
                    Unit.RATIO,
                ),
            ),
            below(
                "the gateways' CPU has room",
                names.LOOP_SECONDS.name,
                snapshot.gateway.loop_busy_ratio,
                IDLE_LOOP_RATIO,
                Unit.RATIO,
            ),
            kv_used(engine, "the KV cache has room", KV_FULL_RATIO, Sense.BELOW),
            device_busy(engine, "the GPUs are not idle", BUSY_RATIO, needed=False),
        ),
        remedies=(*_sooner(snapshot), _another(snapshot, engine.version)),
    )


def _says(engine: EngineFigures) -> str:
    used = engine.slots_used_ratio
    if used is None or used >= FULL_RATIO or (engine.device_busy_ratio or 0.0) >= BUSY_RATIO:
        return "The engines compute all they can, and requests wait for them."
    booked = "" if (engine.saturation or KV_FULL_RATIO) < KV_FULL_RATIO else " booked KV blocks,"
    return (
        f"Requests wait in the workers' queues with {used:.0%} of the slots in use: the bound is{booked} prompt tokens"
        " in prefill or the tenants' shares; which of them is not measured."
    )


def _who(snapshot: Snapshot) -> str:
    loudest = snapshot.loudest
    if loudest is None:
        return ""
    share = "" if loudest.share is None else f"{loudest.share:.0%} of the service and "
    return f" {loudest.name} has {share}{loudest.waiting:.3g} requests waiting on average, most of all."


def _sooner(snapshot: Snapshot) -> tuple[Remedy, ...]:
    loudest = snapshot.loudest
    if loudest is None:
        return SOONER
    bound = remedy(
        "Bound how many of its requests run at a time.",
        Cost.NOTHING,
        f"penstock tenants plan {loudest.name} max_concurrent=16",
    )
    named = (replace(one, command=one.command.replace("TENANT", loudest.name)) for one in SOONER)
    return bound, *named


def _another(snapshot: Snapshot, version: str) -> Remedy:
    wanted = next((one.wanted for one in snapshot.versions if one.version == version), None)
    number = "N" if wanted is None else f"{floor(wanted) + 1}"
    return remedy(
        "Run another worker of the version.", Cost.CAPACITY, f"penstock models scale {version or 'VERSION'} {number}"
    )


def _of_promise(snapshot: Snapshot, engine: EngineFigures) -> float | None:
    """Return the mean queue time relative to the longest broken promise, or else to the longest one."""
    timed = [one for one in snapshot.objectives if one.indicator in TIMED and one.is_missed is not None]
    within = max((one.within_s for one in [one for one in timed if one.is_missed] or timed), default=0.0)
    return engine.queue_mean_s / within if engine.queue_mean_s is not None and within else None
