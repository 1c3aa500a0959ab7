"""A candidate whose chat template was lost, with real templates and SmolLM2's own tokens."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from tokenizers import Tokenizer

from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.tenancy.tenant import Principal
from penstock.formats.chat_template import ChatTemplate
from penstock.gateway.calls.inside import Asked
from penstock.gateway.calls.relay import Reply
from tests.support.clock import ManualClock
from tests.support.models import tokenizers as real_tokenizers
from tests.support.samples import calls
from tests.unit.gateway.shadow.test_shadows import NEW, OK, OLD, House

LOST = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
ASKED: list[dict[str, object]] = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris.<|im_end|>"


@dataclass
class Engines(House):
    """Two engines of one model, which says the answer where it is asked as an assistant, and a question's else."""

    template: str = ""
    tokens: Tokenizer = field(default_factory=lambda: Tokenizer.from_str(real_tokenizers.small().decode()))

    def encoded(self, text: str) -> list[int]:
        self.tokens.no_truncation()
        self.tokens.no_padding()
        return list(self.tokens.encode(text, add_special_tokens=False).ids)

    def prompt(self, source: str) -> list[int]:
        template = ChatTemplate(source, lambda: datetime.now(UTC))
        return self.encoded(template.render(ASKED, {"add_generation_prompt": True}))

    async def ask(
        self,
        request: InferenceRequest,
        principal: Principal,
        *,
        copy: Copy | None = None,
        reply: Reply | None = None,
    ) -> Asked:
        call, ids = calls.inside(request, principal, copy), self.encoded(ANSWER)
        self.seen.append(call)
        told = TokenIds(prompt=self.prompt(self.template), answer=ids)
        answer = replace(OK, ids=lambda: told) if self.shadows.wants_ids(call) else OK
        body = b""
        if isinstance(prompt := request.body.get("prompt"), list):
            begins = prompt[: -len(ids)]
            is_asked = begins[-3:] == self.encoded("<|im_start|>assistant\n")[-3:]
            said = prompt if is_asked else [token + 1 for token in prompt]
            places = [None, *({str(token): {"rank": 1}} for token in said[1:])]
            body = json.dumps({"choices": [{"prompt_logprobs": places}]}).encode()
        return Asked(call=call, answer=answer, body=body)


@pytest.fixture(params=["small", "smollm2"])
def engines(request: pytest.FixtureRequest, clock: ManualClock) -> Engines:
    """Return engines with a small tokenizer, and with SmolLM2's."""
    blob = real_tokenizers.small() if request.param == "small" else real_tokenizers.demo("<|im_start|>")
    if blob is None:
        pytest.skip("SmolLM2 is not prepared here (make models)")
    return Engines(clock, tokens=Tokenizer.from_str(blob.decode()))


@pytest.mark.parametrize(("template", "differs"), [(real_tokenizers.SMOLLM2_TEMPLATE, 0.0), (LOST, 1.0)])
async def test_each_version_scores_on_its_own_rendering(engines: Engines, template: str, differs: float) -> None:
    """So a template without roles is seen, where on the incumbent's prompt it would be proven equal."""
    engines.template = template
    call = calls.call(body={"model": "toy", "messages": ASKED})
    told = TokenIds(prompt=engines.prompt(real_tokenizers.SMOLLM2_TEMPLATE), answer=engines.encoded(ANSWER))
    asked = await engines.ended(call, replace(OK, ids=lambda: told))
    prompts = [one.request.body["prompt"] for one in asked if "prompt" in one.request.body]
    assert prompts == [told.prompt + told.answer, engines.prompt(template) + told.answer]
    assert engines.differed == [("toy", NEW.id, differs)]
    assert [one.request.model for one in asked] == [NEW.id, OLD.id, NEW.id]
