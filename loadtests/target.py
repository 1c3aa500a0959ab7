"""What a target says of itself before it is loaded: which model to ask, and how much that model takes."""

from dataclasses import dataclass

import httpx
import msgspec

from loadtests.plan.planning import Sizes

ANSWERS_WITHIN_S = 30.0
FOR_ANSWER, FOR_PROMPT = 0.25, 0.5
"""Parts of a model's context; the rest is for the chat template, and for words that are more than one token."""


class _Row(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Listed(msgspec.Struct):
    data: list[_Row]


class TargetRefused(Exception):
    """The target can't be loaded; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model as the target names it; the context is None if the target does not tell it."""

    name: str
    context_tokens: int | None

    def sizes(self, scale: float) -> Sizes:
        """Return how lengths are cut to what the model takes."""
        if self.context_tokens is None:
            return Sizes(scale=scale)
        return Sizes(
            scale=scale,
            max_prompt_tokens=max(1, int(self.context_tokens * FOR_PROMPT)),
            max_output_tokens=max(1, int(self.context_tokens * FOR_ANSWER)),
        )


def model_of(target: str, key: str, wished: str) -> Model:
    """Return the wanted model, or the only one; raise ``TargetRefused`` if there is none."""
    url = f"{target.rstrip('/').removesuffix('/v1')}/v1/models"
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        answer = httpx.get(url, headers=headers, timeout=ANSWERS_WITHIN_S, trust_env=False)
    except httpx.HTTPError as error:
        raise TargetRefused(f"{url} does not answer: {type(error).__name__}") from error
    if not answer.is_success:
        raise TargetRefused(f"{url} answers {answer.status_code}; is the key right?")
    try:
        found = {row.id: row.max_model_len for row in msgspec.json.decode(answer.content, type=_Listed).data}
    except msgspec.DecodeError as error:
        raise TargetRefused(f"{url} does not list models: {error}") from error
    name = wished or (next(iter(found)) if len(found) == 1 else "")
    if name not in found:
        raise TargetRefused(f"name one of its models with --model: {', '.join(found)}")
    return Model(name=name, context_tokens=found[name])
