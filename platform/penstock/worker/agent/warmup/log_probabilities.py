"""Checks that an engine's log probabilities are finite, which reveals an overflow.

With an overflow callers would get an empty answer with status 200. A model with wrong but finite numbers is found by
golden prompts.
"""

import math
from typing import Any, cast

from penstock.domain.errors import EngineError
from penstock.domain.models.model import Manifest
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.agent.warmup.warm import Ask

TIMEOUT_S = 60.0
PROBE_TOKENS = 8
_FLOOR = -9999.0
"""vLLM's substitute for minus infinity: no chosen token can have it."""
_NO_JSON = "JSON compliant"
"""Part of the error with which Python's ``json`` refuses NaN: the engine can't send its answer then."""


async def fault(manifest: Manifest, ask: Ask) -> str:
    """Generates a few tokens; empty if the probabilities are finite. The prompt is the manifest's first golden one.
    Raises the errors of ``Ask``.
    """
    prompt = manifest.golden[0].prompt if manifest.golden else list(range(1, 1 + PROBE_TOKENS))
    body = {"prompt": prompt, "max_tokens": PROBE_TOKENS, "min_tokens": 1, "logprobs": 1, "temperature": 0}
    try:
        answer = cast("dict[str, Any]", await ask(Api.COMPLETIONS, body | {"cache_salt": PLATFORM}, TIMEOUT_S))
    except EngineError as error:
        if _NO_JSON in str(error):
            return "its log probabilities are no numbers, and can't be sent"
        raise
    told = (answer["choices"][0].get("logprobs") or {}).get("token_logprobs") or []
    if not told:
        return "it answers nothing"
    return "" if all(_is_sound(one) for one in told) else "its log probabilities are no numbers"


def _is_sound(told: object) -> bool:
    return isinstance(told, int | float) and math.isfinite(told) and told > _FLOOR
