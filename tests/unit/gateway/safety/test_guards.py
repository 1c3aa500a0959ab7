"""Guards: no character of a match leaves, every cut gives the same answer, and each API ends in its own form."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain.errors import PenstockError
from penstock.domain.serving.request import Api, Prepared
from penstock.filters import shipped
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, AtBound, Hold, Mode, Pack, Rule, Where, strictest
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Admitted, Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.safety.judging import Judgement, Match
from penstock.gateway.safety.stream_guard import StreamGuard
from penstock.gateway.safety.whole_guard import WholeGuard
from tests.support.gateways.dispatch import UNASKED, FakeReply, stream_request
from tests.support.samples.calls import DUE, VERSION, principal

SECRET = "AKIAIOSFODNN7EXAMPLE"
PACKS = [shipped.pack("secrets"), shipped.pack("pii")]
COMPILED = Compiled(strictest(PACKS), Where.OUTPUT)
CLASSIFIED = Compiled(strictest([replace(shipped.pack("abuse"), mode=Mode.ENFORCE)]), Where.OUTPUT)


class Answered:
    """One guarded answer: the reply's end, the error told to the engine's side, the recorded matches."""

    def __init__(self, api: Api, compiled: Compiled = COMPILED, *, is_stream: bool = True, n: int = 1) -> None:
        request = stream_request(api=api)
        request = replace(request, stream=is_stream, include_usage=True, body={**request.body, "n": n})
        self.timings = Timings(lambda: 0.0, 0.0)
        came = Call(request=request, principal=principal(), timings=self.timings)
        lease = Lease(opened_at=0.0, deadline_at=5.0, delivered=3)
        lease.end_early = self._ended
        call = came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, lease)
        self.reply, self.error, self.matches = FakeReply(), None, list[Match]()
        judgement = Judgement(call, compiled, self._record, UNASKED)
        self.guard = (StreamGuard if is_stream else WholeGuard)(self.reply, call, judgement)

    error: PenstockError | None

    def _ended(self, error: PenstockError) -> None:
        self.error = error
        if isinstance(self.guard, WholeGuard):
            return
        self.guard.write(b'data: {"error":{"message":"ended"}}\n\n')
        self.guard.finish()

    def _record(self, call: Admitted, match: Match) -> None:
        del call
        self.matches.append(match)

    def stream(self, events: Iterable[bytes]) -> "Answered":
        self.guard.start(200, [])
        for event in events:
            self.guard.write(event)
        self.guard.finish()
        return self

    @property
    def events(self) -> list[dict[str, Any]]:
        found = [sse.data_of(event) for event in sse.split(self.reply.body)]
        return [json.loads(data) for data in found if data.startswith(b"{")]

    def said(self, at: int = 0, name: str = "content") -> str:
        choices = [choice for event in self.events for choice in event.get("choices", []) if choice["index"] == at]
        return "".join(choice["delta"].get(name) or "" for choice in choices)


def event(delta: object, at: int = 0, finish: str | None = None, **more: object) -> bytes:
    """Return a chat's event as vLLM writes it."""
    choice = {"index": at, "delta": delta, "logprobs": None, "finish_reason": finish, **more}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def chat(parts: Sequence[str], at: int = 0) -> list[bytes]:
    """Return a whole stream of one choice."""
    return [event({"content": part}, at) for part in parts] + [event({}, at, "stop"), b"data: [DONE]\n\n"]


CUTS = st.lists(st.integers(0, 60), max_size=8).map(sorted)


def cut(text: str, at: Sequence[int]) -> list[str]:
    """Cut a text at these characters."""
    edges = [0, *at, len(text)]
    return [text[start:end] for start, end in pairwise(edges) if text[start:end]]


async def test_a_stream_without_a_match_is_passed_on_byte_for_byte() -> None:
    """Every event leaves as it came, in order, and none is written anew."""
    events = chat(["Hello", " wor", "ld, 4", "2 is", " fine."])
    assert Answered(Api.CHAT).stream(events).reply.body == b"".join(events)


@settings(max_examples=150, deadline=None)
@given(cuts=CUTS, before=st.sampled_from(["", "key: ", 'say "\\n😀" ', "the quick brown fox ", "\u200b"]))
async def test_no_character_of_a_blocked_match_leaves(cuts: Sequence[int], before: str) -> None:
    """However a secret is cut into events, its answer ends before it, properly, and the engine is told."""
    answered = Answered(Api.CHAT).stream(chat(cut(f"{before}{SECRET} and more", cuts)))
    assert before.startswith(answered.said())
    assert "AKIA" not in answered.reply.body.decode()
    ends = [choice["finish_reason"] for event in answered.events for choice in event["choices"]]
    assert ends[-1] == "content_filter"
    assert answered.events[-1]["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert answered.reply.body.endswith(b"data: [DONE]\n\n")
    assert type(answered.error).__name__ == "AnswerFiltered"
    assert [match.applied.rule.name for match in answered.matches] == ["aws-key"]


@settings(max_examples=150, deadline=None)
@given(
    cuts=CUTS, before=st.lists(st.sampled_from(["so ", "C:\\new", "\\", "\\n", "\\u00", "é "]), max_size=4).map("".join)
)
async def test_a_masked_match_is_masked_alone(cuts: Sequence[int], before: str) -> None:
    """However an address is cut into events, escaped or not, its characters are masked and all others stay."""
    text = before + ' write to "jane.doe@example.com" today, 4111 1111 1111 1111 ok, or to "jane\\u0040example.com" '
    masked = f'{before} write to "{"*" * 20}" today, {"*" * 19} ok, or to "{"*" * 21}" '
    assert Answered(Api.CHAT).stream(chat(cut(text, cuts))).said() == masked


@settings(max_examples=150, deadline=None)
@given(cuts=CUTS, size=st.integers(2, 9), secret=st.sampled_from(["", f" {SECRET} "]))
async def test_events_that_come_together_leave_as_if_they_came_alone(
    cuts: Sequence[int], size: int, secret: str
) -> None:
    """Reasoning and two choices too: each text keeps its order, its masks and its matches, and a secret leaves not."""
    said = cut(f'write to "jane.doe@example.com", \\n4111 1111 1111 1111{secret} ok', cuts)
    events = [event({"reasoning": part}) for part in ("to ", "jane@exam", "ple.com")] + chat(said)[:-1] + chat(said, 1)
    together = [b"".join(events[at : at + size]) for at in range(0, len(events), size)]
    alone, joined = (Answered(Api.CHAT, n=2).stream(each) for each in (events, together))
    for at, name in ((0, "reasoning"), (0, "content"), (1, "content")):
        assert secret or joined.said(at, name) == alone.said(at, name)
    assert secret or joined.matches == alone.matches
    assert "AKIA" not in joined.reply.body.decode()
    assert (joined.error is None) == (alone.error is None) == (not secret)
    assert joined.reply.body.endswith(b"data: [DONE]\n\n")


@settings(max_examples=100, deadline=None)
@given(cuts=CUTS)
async def test_a_classifier_ends_an_answer_before_its_sentence(cuts: Sequence[int]) -> None:
    """However an insult is cut into events, its stream ends before its sentence, as the whole answer does."""
    said, insult = "Thank you very much indeed for all of your help. ", "Shut up, moron! "
    answered = Answered(Api.CHAT, CLASSIFIED).stream(chat(cut(f"{said}{insult}Good bye.", cuts)))
    assert said.startswith(answered.said())
    assert [(match.applied.rule.name, match.position) for match in answered.matches] == [("toxicity", len(said))]
    whole = Answered(Api.CHAT, CLASSIFIED, is_stream=False)
    whole.guard.start(200, [])
    body = {"choices": [{"index": 0, "message": {"content": f"{said}{insult}Good bye."}, "finish_reason": "stop"}]}
    whole.guard.write(json.dumps(body).encode())
    whole.guard.finish()
    assert json.loads(whole.reply.body)["choices"][0]["message"]["content"] == said


async def test_choices_do_not_wait_for_each_other() -> None:
    """Held text of one choice lets another one pass; a match in one ends all."""
    answered = Answered(Api.CHAT, n=2)
    answered.guard.start(200, [])
    answered.guard.write(event({"content": "AKIA"}, 0) + event({"content": "free. "}, 1))
    assert (answered.said(0), answered.said(1)) == ("", "free. ")
    answered.guard.write(event({"content": "IOSFODNN7EXAMPLE "}, 0))
    ends = {choice["index"]: choice["finish_reason"] for event in answered.events for choice in event["choices"]}
    assert ends == {0: "content_filter", 1: "content_filter"}


@pytest.mark.parametrize("name", ["reasoning", "content"])
async def test_reasoning_is_judged_as_content_is(name: str) -> None:
    """A secret in the reasoning ends the answer too."""
    parts = [event({name: part}) for part in ("so ", "AK", "IAIOSFODNN7EX", "AMPLE is it ")]
    assert Answered(Api.CHAT).stream(parts).said(0, name) == "so "


async def test_arguments_of_a_tool_call_are_never_masked() -> None:
    """A rule that masks ends a tool call instead: altered arguments would act."""
    calls = [
        event({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in ('{"to":"a@b', '.com"}')
    ]
    answered = Answered(Api.CHAT).stream([*calls, event({}, 0, "tool_calls")])
    assert "a@b" not in answered.reply.body.decode()
    assert answered.events[-2]["choices"][0]["finish_reason"] == "content_filter"


async def test_log_probabilities_do_not_tell_what_is_masked() -> None:
    """Tokens of log probabilities are judged, and leave with nothing of a masked match."""
    parts = ["to ", "jane@", "example.com", " now"]
    chances = [event({"content": one}, logprobs={"content": [{"token": one, "logprob": -1.0}]}) for one in parts]
    body = Answered(Api.CHAT).stream([*chances, event({}, 0, "stop")]).reply.body.decode()
    assert "jane" not in body
    assert "example" not in body
    assert '"token":"to "' in body.replace(" :", ":").replace('": "', '":"')


async def test_a_heartbeat_passes_what_is_held() -> None:
    """A comment is sent at once, while text is held."""
    answered = Answered(Api.CHAT)
    answered.guard.start(200, [])
    answered.guard.write(event({"content": "AKIA"}))
    answered.guard.write(b": waiting\n\n")
    assert answered.reply.body == b": waiting\n\n"


@pytest.mark.parametrize(("side", "shown"), [(AtBound.BLOCK, ""), (AtBound.RELEASE, "AKIAIOSF")])
async def test_the_packs_side_wins_at_a_bound(side: AtBound, shown: str) -> None:
    """More held events than the bound end the answer, or leave unjudged, as the pack says."""
    rule = Rule(name="key", action=Action.BLOCK, category="c", regex="AKIA[A-Z0-9]{16}")
    policy = strictest([Pack(id="own", version=1, rules=(rule,), hold=Hold(tokens=3, side=side))])
    answered = Answered(Api.CHAT, Compiled(policy, Where.OUTPUT))
    answered.guard.start(200, [])
    for part in ("AK", "IA", "IO", "SF"):
        answered.guard.write(event({"content": part}))
    assert answered.said() == shown
    assert (answered.error is None) == (side is AtBound.RELEASE)
    (told,) = answered.matches
    assert (told.applied.pack, told.applied.rule.name, told.action is Action.BLOCK) == ("own@1", "hold", not shown)


def responses(parts: Sequence[str]) -> list[bytes]:
    """Return a Responses stream, which repeats its text at its end."""
    whole = "".join(parts)
    bodies: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        *({"type": "response.output_text.delta", "output_index": 0, "delta": part} for part in parts),
        {"type": "response.output_text.done", "text": whole},
        {"type": "response.completed", "response": {"status": "completed", "output": [{"content": [{"text": whole}]}]}},
    ]
    return [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in bodies]


def messages(parts: Sequence[str]) -> list[bytes]:
    """Return a Messages stream."""
    bodies: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        *({"type": "content_block_delta", "delta": {"type": "text_delta", "text": part}} for part in parts),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in bodies]


@pytest.mark.parametrize(
    ("api", "made", "end"),
    [
        (Api.RESPONSES, responses, {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
        (Api.MESSAGES, messages, {"stop_reason": "refusal"}),
    ],
)
async def test_each_api_ends_in_its_own_form(api: Api, made: Any, end: dict[str, object]) -> None:  # noqa: ANN401
    """Responses end incomplete with the reason, Messages with a refusal; a mask holds in repeated text as well."""
    blocked = Answered(api).stream(made(["it is AKIA", SECRET[4:], " there"]))
    assert SECRET[4:] not in blocked.reply.body.decode()
    told: Any = [one.get("response") or one.get("delta") for one in blocked.events if one["type"] != "message_stop"][-1]
    assert {name: told[name] for name in end} == end
    masked = Answered(api).stream(made(["to jane@exam", "ple.com", " now"])).reply.body.decode()
    assert "jane" not in masked
    assert "ple.com" not in masked


async def test_a_whole_answer_ends_before_the_match() -> None:
    """Without a stream the text until the match is shown, with the reason and a right length."""
    body = {"choices": [{"index": 0, "message": {"content": f"it is {SECRET} now"}, "finish_reason": "stop"}]}
    answered = Answered(Api.CHAT, is_stream=False)
    answered.guard.start(200, [(b"content-length", b"5")])
    answered.guard.write(json.dumps(body).encode())
    answered.guard.finish()
    (choice,) = json.loads(answered.reply.body)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("it is ", "content_filter")
    assert dict(answered.reply.headers)[b"content-length"] == b"%d" % len(answered.reply.body)


async def test_a_whole_answer_without_a_match_is_passed_on_byte_for_byte() -> None:
    """A harmless body is not written anew."""
    body = b'{"choices": [ {"index":0,"message":{"content":"fine"},"finish_reason":"stop"}]}'
    answered = Answered(Api.CHAT, is_stream=False)
    answered.guard.start(200, [])
    answered.guard.write(body)
    answered.guard.finish()
    assert answered.reply.body == body
