"""The safety stage: prompts are judged, answers get a guard, and without a policy nothing is added."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

import pytest

from penstock.domain.errors import UnsupportedField
from penstock.domain.ids import Alias, TenantId
from penstock.domain.models.tensors import joined
from penstock.domain.serving.request import Api, PackedTensors, Prepared, Sealed
from penstock.domain.serving.shadow import Copy
from penstock.filters.errors import PromptFiltered
from penstock.filters.pack import Action, Mode, Pack, Policy, Rule, Where, strictest
from penstock.gateway.calls.call import Admitted, Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.safety.judging import Match
from penstock.gateway.safety.stage import ScreenedRequests
from penstock.gateway.safety.stream_guard import StreamGuard
from penstock.gateway.safety.whole_guard import WholeGuard
from tests.support.gateways.dispatch import UNASKED, FakeReply, stream_request
from tests.support.samples.calls import DUE, VERSION, principal

PACK = Pack(id="own", version=1, rules=(Rule(name="moon", action=Action.BLOCK, category="c", phrases=("blue moon",)),))


class Screen:
    """A stage with one policy, and what it recorded."""

    def __init__(self, policy: Policy) -> None:
        self.matches = list[Match]()
        self.stage = ScreenedRequests(lambda _: policy, lambda _, match: self.matches.append(match), UNASKED)


def call(body: Mapping[str, object], api: Api = Api.CHAT, *, stream: bool = True) -> Admitted:
    """Return an admitted request with this body."""
    request = replace(stream_request(api=api), body=dict(body), stream=stream)
    came = Call(request=request, principal=principal(), timings=Timings(lambda: 0.0, 0.0))
    chosen = came.chosen(VERSION, Prepared(prompt_tokens=7))
    return chosen.admitted(request, DUE, Lease(opened_at=0.0, deadline_at=5.0))


def chat(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}


async def test_without_rules_the_reply_stays_the_callers() -> None:
    """A request that no pack concerns passes through no guard."""
    reply = FakeReply()
    assert await Screen(Policy()).stage.screen(call(chat("a blue moon")), reply) is reply


@pytest.mark.parametrize(
    "body",
    [
        chat("once in a BLUE\nmoon"),
        {"messages": Sealed(b'[{"content":"blue moon"}]', items=1, is_text=True)},
        {"prompt": ["fine", "blue moon"]},
        {"input": "blue moon", "instructions": ""},
        {"messages": [], "tools": [{"function": {"description": "blue moon"}}]},
        {"messages": [], "response_format": {"json_schema": {"description": "blue moon"}}},
        {"messages": [{"tool_calls": [{"function": {"arguments": '{"a": "\\nblue\\u0020moon"}'}}]}]},
        {"messages": [], "yet_unknown": ["blue moon"]},
        {"messages": [{"content": [{"type": "text", "text": "blue"}, {"type": "text", "text": "moon"}]}]},
        {"messages": [{"content": [{"type": "text", "text": "fine"}, {"type": "text", "text": "blue moon"}]}]},
        {"messages": [], "tools": [{"function": {"parameters": {"properties": {"blue moon": {"type": "string"}}}}}]},
        {"messages": [{"content": [{"type": "tool_use", "input": {"a": {"blue moon": 1}}}]}]},
    ],
)
async def test_a_prompt_that_blocks_is_refused(body: Mapping[str, object]) -> None:
    """A match anywhere in the prompt is a refusal that names the category, never the text."""
    screen = Screen(strictest([PACK]))
    with pytest.raises(PromptFiltered) as refused:
        await screen.stage.screen(call(body), FakeReply())
    assert "category c" in refused.value.message
    assert "moon" not in refused.value.message
    assert [(match.stage, match.action) for match in screen.matches] == [(Where.INPUT, Action.BLOCK)]


async def test_a_prompt_of_tensors_is_judged() -> None:
    """Texts that a handler gets as tensors are a prompt too."""
    texts = joined([b"fine", b"a blue moon"])
    described = {"name": "text", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(texts)}}
    head = json.dumps({"inputs": [described], "outputs": []}).encode()
    asked = call({}, Api.INFER, stream=False)
    packed = PackedTensors(head_bytes=len(head), data=head + texts, items=2)
    with pytest.raises(PromptFiltered):
        await Screen(strictest([PACK])).stage.screen(
            replace(asked, request=replace(asked.request, tensors=packed)), FakeReply()
        )


@pytest.mark.parametrize("name", ["return_token_ids", "return_tokens_as_token_ids", "prompt_logprobs"])
@pytest.mark.parametrize(("mode", "is_refused"), [(Mode.ENFORCE, True), (Mode.OBSERVE, False)])
async def test_token_ids_are_no_answer_under_a_policy(name: str, mode: Mode, is_refused: bool) -> None:
    """A wish for token ids is refused by its name under a pack that acts; one that observes lets it pass."""
    screen = Screen(strictest([replace(PACK, mode=mode)]))
    with pytest.raises(UnsupportedField) if is_refused else nullcontext() as refused:
        await screen.stage.screen(call({**chat("fine"), name: 1}), FakeReply())
    assert not is_refused or (refused is not None and refused.value.param == name)
    await screen.stage.screen(call({**chat("fine"), name: None}), FakeReply())


async def test_a_pack_that_observes_lets_the_prompt_pass() -> None:
    """In mode observe a match is recorded with the action that its rule would take."""
    screen = Screen(strictest([replace(PACK, mode=Mode.OBSERVE)]))
    await screen.stage.screen(call(chat("blue moon")), FakeReply())
    assert [(match.action, match.applied.wanted) for match in screen.matches] == [(Action.OBSERVE, Action.BLOCK)]


async def test_a_prompt_of_token_ids_is_refused_under_a_policy() -> None:
    """Token ids can't be judged, so they are no way around a rule."""
    with pytest.raises(UnsupportedField, match="send text"):
        await Screen(strictest([PACK])).stage.screen(call({"prompt": [[1, 2, 3]]}), FakeReply())


async def test_a_score_of_judged_answers_is_not_judged() -> None:
    """Two versions are compared under a policy too: the platform asks for token ids, which no caller is shown."""
    asked, reply = call({"prompt": [1, 2], "prompt_logprobs": 1}, Api.COMPLETIONS, stream=False), FakeReply()
    request = replace(asked.request, cost=replace(asked.request.cost, scores_prompt=True))
    note = Copy(of=request.id, alias=Alias("toy"), tenant=TenantId("acme"), sticky="s", is_evidence=False)
    stage = Screen(strictest([PACK])).stage
    assert await stage.screen(replace(asked, request=request, copy=note), reply) is reply
    with pytest.raises(UnsupportedField):
        await stage.screen(replace(asked, request=request), reply)


@pytest.mark.parametrize(
    ("api", "stream", "guard"),
    [
        (Api.CHAT, True, StreamGuard),
        (Api.MESSAGES, False, WholeGuard),
        (Api.CLASSIFY, False, WholeGuard),
        (Api.INFER, False, WholeGuard),
        (Api.EMBEDDINGS, False, FakeReply),
    ],
)
async def test_answers_of_text_get_a_guard(api: Api, stream: bool, guard: type) -> None:
    """Streams and whole answers of text are guarded; numbers are not."""
    made = await Screen(strictest([PACK])).stage.screen(call({"input": "fine"}, api, stream=stream), FakeReply())
    assert type(made) is guard
