"""Usage and timings beside the tensors of an answer. Pure.

A model's own API reports them itself. Otherwise they come from the call: the gate's count is the bill; unknowns are
left out.
"""

from dataclasses import replace

import msgspec

from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.oip.nouns import InferAnswer, Parameter

ITEMS = "items"
_ENCODER = msgspec.json.Encoder()


def with_account(answer: InferAnswer, progress: Progress | None) -> InferAnswer:
    """Return the answer with its usage, if it states none itself."""
    return answer if answer.parameters or progress is None else replace(answer, parameters=_account(progress.call))


def _account(call: Call) -> dict[str, Parameter]:
    used = call.attempts.used
    said: dict[str, Parameter] = {}
    if used is not None and used.prompts:
        said = {"prompt_tokens": used.prompt_tokens, "output_tokens": used.output_tokens, ITEMS: used.prompts}
    stages = {stage: round(seconds * 1e3, 3) for stage, seconds in call.timings.seconds.items()}
    said["stages_ms"] = _ENCODER.encode(stages).decode()
    if call.degraded:
        said["degraded"] = ",".join(call.degraded)
    return said
