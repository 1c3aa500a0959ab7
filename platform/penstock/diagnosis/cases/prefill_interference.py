"""Prefill interference: tokens after the first are late, because prompts take part in each step.

A merely large batch is slow in all its steps, and computes few prompts.
"""

from penstock.diagnosis.cases.fullest import SOME_WAIT, engine_of
from penstock.diagnosis.evidence import Case, Cost, Judgement, Unit, at_least, below, remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

PROMPT_PART = 0.6
"""Prompt part of computed tokens: below it, most steps are decode steps."""
WAY = (Stage.QUEUE, Stage.PREFILL)
"""The stages of a time to first token at an engine."""
SEVERAL_RUN = 2.0
"""Mean sequences in an engine's batch: with fewer, a prompt hardly meets a running answer."""
QUEUE_PART = 0.5
"""Queue part of the time to first token: above it, most of it is waiting for other requests."""

REMEDIES = (
    remedy(
        "Let one prompt take less of a step.",
        Cost.NEW_VERSION,
        "penstock models push SOURCE --name NAME --price PRICE --licence LICENCE"
        " --engine long_prefill_tokens=128 --engine max_num_batched_tokens=256 --workers 1",
        setting="long_prefill_tokens",
    ),
    remedy(
        "Serve long prompts by workers of their own: an alias for them, and its own version.",
        Cost.CAPACITY,
        "penstock aliases set long-prompts VERSION",
    ),
    remedy("Let a prompt that others sent before be found in the cache: same beginning, same tenant.", Cost.WORK),
)


def judge(snapshot: Snapshot) -> Judgement:
    """Judge all engines together: token gaps are not measured by version."""
    engine = engine_of(snapshot)
    return Judgement(
        case=Case.PREFILL_INTERFERENCE,
        says="Prompts are computed between the tokens of running answers, and stretch the gaps.",
        subject=engine.version,
        harms=(Indicator.ITL, Indicator.TTFT),
        evidence=(
            at_least(
                "gaps between tokens are too long: bad ones, of those allowed",
                names.ITL_SECONDS.name,
                _lack_of_itl(snapshot),
                1.0,
            ),
            below(
                "first tokens do not wait for a slot: queue, of queue and prefill",
                f'{names.STAGE_SECONDS.name}{{stage=~"{Stage.QUEUE}|{Stage.PREFILL}"}}',
                _queue_part(snapshot),
                QUEUE_PART,
                Unit.RATIO,
            ),
            at_least(
                "most of what engines compute is prompts",
                f"{names.PROMPT_TOKENS.name}, {names.CACHED_TOKENS.name}, {names.OUTPUT_TOKENS.name}",
                snapshot.tokens.prompt_part,
                PROMPT_PART,
                Unit.RATIO,
            ),
            at_least(
                "answers run beside each other in an engine", names.ENGINE_RUNNING.name, engine.running, SEVERAL_RUN
            ),
            below("no request waits for a slot of the batch", names.DOOR_WAITING.name, engine.waiting, SOME_WAIT),
        ),
        remedies=REMEDIES,
    )


def _lack_of_itl(snapshot: Snapshot) -> float | None:
    """Return the worst ratio of bad gaps to allowed ones: above 1 the objective is missed."""
    known = [
        (1.0 - one.good_ratio) / (1.0 - one.promised_ratio)
        for one in snapshot.objectives
        if one.indicator is Indicator.ITL and one.good_ratio is not None
    ]
    return max(known, default=None)


def _queue_part(snapshot: Snapshot) -> float | None:
    return snapshot.part(Stage.QUEUE, WAY) if snapshot.stage(Stage.PREFILL) is not None else None
