"""Random bodies of all APIs: what they cost is never below what an engine may do, and grows with each part.

``Asked`` is the engine's side, from vLLM's own rules and not from the parser's code.
"""

import json
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.serving.request import JSON_APIS, Api
from penstock.domain.tenancy.cost import UNBOUNDED, Cost
from penstock.gateway.openai.parse import parse

OUTPUT = {
    Api.CHAT: "max_completion_tokens",
    Api.COMPLETIONS: "max_tokens",
    Api.RESPONSES: "max_output_tokens",
    Api.MESSAGES: "max_tokens",
}
WITH_CHOICES = (Api.CHAT, Api.COMPLETIONS)
LISTS = (Api.COMPLETIONS, Api.EMBEDDINGS, Api.CLASSIFY)
SILENT_COMPLETION = 16
CONTEXT = 2048


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a caller wants; ``each`` None leaves the length open."""

    api: Api
    prompts: int
    words: int
    n: int
    each: int | None
    beams: bool
    as_ids: bool
    padding: int
    scored: bool

    def body(self) -> dict[str, object]:
        """Return the request that asks for it."""
        padding = "y" * self.padding
        told = {"metadata": {"user_id": padding}} if self.api is Api.MESSAGES else {"user": padding}
        body: dict[str, object] = {"model": "m", **told, **self._input()}
        if self.api in OUTPUT and (self.each is not None or self.api is Api.MESSAGES):
            body[OUTPUT[self.api]] = self.each or 1
        elif self.api is Api.COMPLETIONS:
            body["max_tokens"] = None
        if self.api in WITH_CHOICES:
            body |= {"n": self.n, "use_beam_search": self.beams}
            body |= {"prompt_logprobs": 1} if self.scored else {}
        return body

    def _input(self) -> dict[str, object]:
        text: object = list(range(self.words)) if self.as_ids and self.api in LISTS else "a " * self.words
        if self.api in LISTS:
            name = "prompt" if self.api is Api.COMPLETIONS else "input"
            return {name: [text] * self.prompts if self.prompts > 1 else text}
        if self.api is Api.RESPONSES:
            return {"input": text}
        return {"messages": [{"role": "user", "content": text}]}

    def sequences(self) -> int:
        """Return how many the engine decodes."""
        prompts = self.prompts if self.api in LISTS else 1
        return prompts * (self.n if self.api in WITH_CHOICES else 1)

    def output(self) -> int:
        """Return how many tokens the engine may make: what is left of its context, or what was asked for."""
        if not self.api.generates:
            return 0
        each = {Api.MESSAGES: 1, Api.COMPLETIONS: SILENT_COMPLETION}.get(self.api, CONTEXT)
        return self.sequences() * min(CONTEXT - self.words, each if self.each is None else self.each)


asks = st.builds(
    Asked,
    api=st.sampled_from(JSON_APIS),
    prompts=st.integers(1, 40),
    words=st.integers(1, 200),
    n=st.integers(1, 128),
    each=st.one_of(st.none(), st.integers(1, 4000)),
    beams=st.booleans(),
    as_ids=st.booleans(),
    padding=st.integers(0, 3000),
    scored=st.booleans(),
)


def cost_of(asked: Asked) -> Cost:
    """Return the cost on a model that counts a token for each word."""
    cost = parse(asked.api, json.dumps(asked.body()).encode()).cost
    prompts = asked.prompts if asked.api in LISTS else 1
    return cost.with_prompt(prompts * asked.words, is_counted=True).within(CONTEXT)


@given(asks)
def test_a_body_costs_no_less_than_an_engine_may_do(asked: Asked) -> None:
    """Sequences, prompts and output, for each API: choices, beams, lists of texts and ids, open lengths."""
    cost = cost_of(asked)
    assert cost.sequences == asked.sequences()
    assert cost.prompts == (asked.prompts if asked.api in LISTS else 1)
    assert cost.output_tokens >= asked.output()
    assert cost.slots == (asked.sequences() if asked.api.generates else 1)


@given(asks, st.sampled_from(["prompts", "words", "n", "each", "padding"]))
def test_a_body_that_asks_for_more_costs_no_less(asked: Asked, part: str) -> None:
    """Each factor alone: more prompts, words, choices, length or bytes is never cheaper."""
    if getattr(asked, part) is None:
        return
    small, large = cost_of(asked), cost_of(replace(asked, **{part: 1 + getattr(asked, part)}))
    assert large.sequences >= small.sequences
    assert large.prompt_tokens + large.work_tokens >= small.prompt_tokens + small.work_tokens
    if part != "words":  # a longer prompt leaves less of the context
        assert large.output_tokens >= small.output_tokens


@given(asks)
def test_what_is_left_open_has_no_bound_before_the_model_is_known(asked: Asked) -> None:
    """Silence is no small number; null is silence, and a silent completion has the engine's own default."""
    body = asked.body()
    cost = parse(asked.api, json.dumps(body).encode()).cost
    has_default = asked.api in (Api.MESSAGES, Api.COMPLETIONS)
    assert cost.names_no_output == (asked.each is None and asked.api.generates and not has_default)
    assert cost.prompt_tokens == UNBOUNDED
    if asked.api is Api.COMPLETIONS:
        del body["max_tokens"]
        silent = parse(asked.api, json.dumps(body).encode()).cost
        assert silent.output_tokens == SILENT_COMPLETION * asked.sequences()
