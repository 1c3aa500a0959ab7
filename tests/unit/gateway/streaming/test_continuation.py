import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.domain.errors import PenstockError, StoreUnavailable, StreamBroken
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import Rest
from penstock.gateway.streaming import continuation
from penstock.gateway.streaming.continuation import Cut, Obstacle, cut, obstacle
from penstock.gateway.streaming.continuity import Continuity, End
from penstock.gateway.streaming.dialects import DIALECTS
from tests.support.engines.token_stream import FIRST_ID, PROMPT, WordEngine
from tests.support.samples import calls

LOST = StreamBroken()


def request(api: Api = Api.CHAT, most: int = 1000, **body: Any) -> InferenceRequest:  # noqa: ANN401  any field
    """Return a greedy stream's request."""
    given = {"messages": [{"role": "user", "content": "hi"}]} if api is Api.CHAT else {"prompt": "hi"}
    full: dict[str, object] = {"model": "toy", "stream": True, "temperature": 0, "max_tokens": most, **given, **body}
    return calls.request(api=api, body=full, stream=True, cost=Cost(output_tokens=most))


# -- what may be continued at all ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "repetition_penalty": 1.2},
        {"stop": ["a", "b"], "stop_token_ids": [7], "ignore_eos": True, "min_tokens": 3},
        {"seed": 4},
        {"n": 1, "logprobs": None, "presence_penalty": 0, "frequency_penalty": 0.0, "tools": [], "tool_choice": "none"},
        {"response_format": {"type": "text"}, "stream_options": {"include_usage": True}, "user": "u"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ],
)
def test_plain_streams_may_go_on(body: dict[str, Any]) -> None:
    """Sampling, stop strings and settings that say nothing are no obstacle; a seed is none where nothing is drawn."""
    assert obstacle(request(**body)) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"n": 2}, Obstacle.FIELD),
        ({"logprobs": True}, Obstacle.FIELD),
        ({"presence_penalty": 0.5}, Obstacle.FIELD),
        ({"frequency_penalty": -0.5}, Obstacle.FIELD),
        ({"tools": [{"type": "function"}]}, Obstacle.FIELD),
        ({"response_format": {"type": "json_object"}}, Obstacle.FIELD),
        ({"structured_outputs": {"regex": "a"}}, Obstacle.FIELD),
        ({"use_beam_search": True}, Obstacle.FIELD),
        ({"bad_words": ["x"]}, Obstacle.FIELD),
        ({"return_token_ids": True}, Obstacle.FIELD),
        ({"echo": True}, Obstacle.FIELD),
        ({"invented_tomorrow": 1}, Obstacle.FIELD),
        ({"stream_options": {"continuous_usage_stats": True}}, Obstacle.FIELD),
        ({"seed": 4, "temperature": 0.7}, Obstacle.SEED),
        ({"seed": 4, "temperature": None}, Obstacle.SEED),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, Obstacle.CONTENT),
    ],
)
def test_what_depends_on_more_than_the_tokens_may_not(body: dict[str, Any], why: Obstacle) -> None:
    """State that another engine would not have, and fields that nobody here knows, are obstacles."""
    assert obstacle(request(**body)) is why


@pytest.mark.parametrize(
    ("prompt", "may"), [("hi", True), (["hi"], True), ([1, 2], True), ([[1, 2]], True), (["a", "b"], False)]
)
def test_completions_go_on_for_one_prompt(prompt: object, may: bool) -> None:
    """Several prompts are several answers in one stream."""
    assert (obstacle(request(Api.COMPLETIONS, prompt=prompt)) is None) is may


def test_completions_logprobs_of_nought_are_logprobs() -> None:
    """``logprobs: 0`` asks a completion for the chosen token's own: it is no way of saying no."""
    assert obstacle(request(Api.COMPLETIONS, logprobs=0)) is Obstacle.FIELD


@pytest.mark.parametrize("api", [Api.RESPONSES, Api.MESSAGES, Api.EMBEDDINGS])
def test_other_dialects_end_in_band(api: Api) -> None:
    """Their events carry no token ids."""
    assert obstacle(request(api)) is Obstacle.API


# -- where to go on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "said", "stops", "found"),
    [
        (["a", "b"], "ab", [], Cut(kept=2)),
        (["a", "", ""], "a", [], Cut(kept=1)),
        ([], "", [], Cut(kept=0)),
        (["fo", "o<"], "f", ["</s>"], Cut(kept=1, lead="o")),
        (["foo", " bar"], "foo ", ["</s>"], Cut(kept=2, lead="bar")),
        (["<", "/", "s"], "", ["</s>"], Cut(kept=0)),
        (["a", "b"], "a", [], Obstacle.TEXT),
        (["a", "b"], "x", [], Obstacle.TEXT),
        (["ab<", "<"], "ab<", ["<>>"], Cut(kept=0, replay="ab<")),
    ],
)
def test_the_cut_is_behind_what_is_sure(pieces: list[str], said: str, stops: list[str], found: Cut | Obstacle) -> None:
    """Not inside a character nor a stop string that may have begun; text and tokens must tell the same story."""
    assert cut(pieces, said, stops, is_greedy=True) == found


def test_sampled_tokens_that_were_seen_are_not_made_anew() -> None:
    """What a sampled answer has shown can't be produced again, so it does not go back behind it."""
    assert cut(["ab<", "<"], "ab<", ["<>>"], is_greedy=False) is Obstacle.HELD


# -- whole streams, cut anywhere -----------------------------------------------------------------------------------


class Told:
    """What a caller has read."""

    def __init__(self, events: bytes) -> None:
        lines = [line.removeprefix(b"data: ") for line in events.split(b"\n\n") if line]
        self.is_done = lines[-1:] == [b"[DONE]"]
        self.chunks: list[dict[str, Any]] = [json.loads(line) for line in lines if line != b"[DONE]"]
        choices = [chunk["choices"][0] for chunk in self.chunks if chunk["choices"]]
        shown = [choice.get("delta", {}).get("content", choice.get("text")) for choice in choices]
        self.text = "".join(piece for piece in shown if piece)
        self.finishes = [(c["finish_reason"], c["stop_reason"]) for c in choices if c["finish_reason"]]
        self.roles = sum("role" in choice.get("delta", {}) for choice in choices)
        self.heads = {(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in self.chunks}
        self.usages = [chunk["usage"] for chunk in self.chunks if "usage" in chunk]
        self.ids = [c.get("token_ids") for c in choices] + [chunk.get("prompt_token_ids") for chunk in self.chunks]


def continuity(asked: InferenceRequest, engine: WordEngine, counted: list[tuple[End, str]] | None = None) -> Continuity:
    """Return what a relay keeps of this request."""
    seen = counted if counted is not None else []
    return Continuity(_call(asked), engine, lambda end, reason: seen.append((end, reason)))


def _call(asked: InferenceRequest) -> Admitted:
    return replace(calls.call(), request=asked)


async def broken_and_continued(asked: InferenceRequest, engine: WordEngine, cuts: list[int]) -> bytes | Obstacle:
    """Return what the caller reads where each cut says how many events its worker delivers before it dies."""
    counted: list[tuple[End, str]] = []
    kept, out = continuity(asked, engine, counted), b""
    api, prompt, most = asked.api, PROMPT, asked.cost.output_tokens
    for number, events in enumerate([*cuts, 1 << 30]):
        take = kept.take_or(DIALECTS[asked.api].counted)
        for said, event in enumerate(engine.stream(api, prompt, most, name="abc"[number])):
            if said == events:
                break
            out += take(event)[1]
        else:
            return out
        if ending := kept.ending(has_usage=b'"usage":{' in out):
            return out + ending
        rest = await kept.rest(LOST)
        if rest is None:
            return Obstacle(counted[-1][1])
        api, prompt, most = rest.api, _ids(rest.body["prompt"]), _whole(rest.body["max_tokens"])
    raise AssertionError("the last worker does not die")


def _ids(value: object) -> list[int]:
    assert isinstance(value, list)
    return value


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def unbroken(asked: InferenceRequest, engine: WordEngine) -> Told:
    """Return what the caller reads where nobody dies."""
    return Told(b"".join(engine.stream(asked.api, PROMPT, asked.cost.output_tokens)))


@st.composite
def engines(draw: st.DrawFn) -> WordEngine:
    """Make answers of odd characters, cut into tokens anywhere, with stop strings that may occur in them."""
    text = draw(st.text("ab<>é日🙂", min_size=1, max_size=24)).encode()
    places = sorted(draw(st.sets(st.integers(1, len(text)), max_size=len(text))) | {len(text)})
    tokens = tuple(text[a:b] for a, b in zip([0, *places], places, strict=False))
    stops = tuple(draw(st.lists(st.text("ab<>日", min_size=1, max_size=4), max_size=2)))
    return WordEngine(tokens=tokens, stops=stops, shows_stop=draw(st.booleans()), per_event=draw(st.integers(1, 3)))


@given(
    engine=engines(),
    api=st.sampled_from([Api.CHAT, Api.COMPLETIONS]),
    most=st.integers(1, 30),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=2),
    temperature=st.sampled_from([0, 0.7]),
)
@example(WordEngine(tokens=(b"a", "é".encode()[:1], "é".encode()[1:], b"b")), Api.CHAT, 30, [3, 1], 0)
@example(WordEngine(tokens=(b"ab", b"<", b"/", b"s", b"b"), stops=("</s>",)), Api.COMPLETIONS, 30, [3, 1], 0)
async def test_a_stream_cut_anywhere_reads_like_an_unbroken_one(
    engine: WordEngine, api: Api, most: int, cuts: list[int], temperature: float
) -> None:
    """Text, finish, usage, id, time and role are those of an answer by one worker, however often and where it broke."""
    asked = request(api, most, stop=list(engine.stops), temperature=temperature)
    read = await broken_and_continued(asked, engine, cuts)
    if read is Obstacle.HELD:
        assert temperature > 0
        assert engine.stops
        return
    assert isinstance(read, bytes)
    told, whole = Told(read), unbroken(asked, engine)
    assert told.text == whole.text
    assert told.finishes == whole.finishes
    assert told.usages == whole.usages
    assert told.heads == whole.heads
    assert told.roles == whole.roles
    assert told.is_done
    assert not any(told.ids)


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
def test_callers_see_no_ids(api: Api) -> None:
    """Ids that the gateway asked for leave the events, which stay what the engine wrote; tokens are counted."""
    engine = WordEngine(tokens=(b"a", b'","token_ids":[9]', b"c", b"d", b"e"), per_event=2)
    kept = continuity(request(api), engine)
    taken = kept.take_or(DIALECTS[api].counted)
    events = list(engine.stream(api, PROMPT, 100))
    singly = [taken(event) for event in events]
    assert sum(tokens for tokens, _ in singly) == 3
    assert kept.tokens(3) == 5
    for before, (_, after) in zip(events, singly, strict=True):
        assert after.replace(b"null", b"") == _without_ids(before).replace(b"null", b"")
    together = continuity(request(api), engine).take_or(DIALECTS[api].counted)(b"".join(events))
    assert together == (3, b"".join(after for _, after in singly))


def _without_ids(event: bytes) -> bytes:
    if not event.startswith(b"data: {"):
        return event
    body = json.loads(event[6:])
    for place in [body, *body["choices"]]:
        for name in ("token_ids", "prompt_token_ids"):
            if place.get(name) is not None:
                place[name] = None
    return b"data: " + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


# -- the request for the rest --------------------------------------------------------------------------------------


async def rest_after(asked: InferenceRequest, engine: WordEngine, events: int) -> Rest:
    """Return what is asked of another worker after so many events."""
    kept = continuity(asked, engine)
    take = kept.take_or(DIALECTS[asked.api].counted)
    for _, event in zip(range(events), engine.stream(asked.api, PROMPT, asked.cost.output_tokens), strict=False):
        take(event)
    rest = await kept.rest(LOST)
    assert rest is not None
    return rest


async def test_the_rest_is_asked_for_with_ids() -> None:
    """Prompt and answer as ids, what is left of both bounds, the same sampling, and nothing that shaped the prompt."""
    engine = WordEngine(tokens=(b"a", b"b", b"c", b"d"))
    asked = request(most=9, min_tokens=3, top_k=5, stop_token_ids=[4], user="u", tool_choice="none")
    rest = await rest_after(asked, engine, 3)
    assert rest == Rest(
        api=Api.COMPLETIONS,
        body={
            "prompt": [*PROMPT, FIRST_ID, FIRST_ID + 1],
            "temperature": 0,
            "top_k": 5,
            "stop_token_ids": [4],
            "max_tokens": 7,
            "min_tokens": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        },
        prompt_tokens=5,
        output_tokens=7,
        error=LOST,
    )


async def test_a_silent_request_is_bounded_by_the_context() -> None:
    """Where no bound was asked for, the rest may be as long as the context leaves room."""
    engine = WordEngine(tokens=(b"a", b"b", b"c"))
    asked = replace(request(Api.COMPLETIONS, most=0), cost=Cost())
    kept = continuity(asked, engine)
    take = kept.take_or(DIALECTS[asked.api].counted)
    for _, event in zip(range(2), engine.stream(asked.api, PROMPT, 50), strict=False):
        take(event)
    rest = await kept.rest(LOST)
    assert rest is not None
    assert rest.output_tokens == calls.VERSION.max_model_len - len(PROMPT) - 2


async def test_a_stream_goes_on_twice_and_no_more() -> None:
    """A request that loses a third worker may be what kills them."""
    counted: list[tuple[End, str]] = []
    engine = WordEngine(tokens=tuple(b"abcdefgh"[i : i + 1] for i in range(8)))
    kept = continuity(request(), engine, counted)
    kept.take_or(DIALECTS[Api.CHAT].counted)(b"".join(list(engine.stream(Api.CHAT, PROMPT, 50))[:2]))
    assert await kept.rest(LOST) is not None
    assert await kept.rest(LOST) is not None
    assert await kept.rest(LOST) is None
    assert counted == [(End.REFUSED, Obstacle.SPENT)]


async def test_an_engine_without_ids_is_not_continued() -> None:
    """Where the engine tells no ids, its events pass as they are, are counted as events, and the stream ends broken."""
    counted: list[tuple[End, str]] = []
    engine = WordEngine(tokens=(b"a", b"b"))
    kept = continuity(request(), engine, counted)
    event = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    assert kept.take_or(DIALECTS[Api.CHAT].counted)(event + event) == (2, event + event)
    assert await kept.rest(LOST) is None
    assert counted == [(End.REFUSED, Obstacle.TEXT)]


async def test_text_that_does_not_follow_from_the_ids_is_not_continued() -> None:
    """An engine that shows other text than its tokens say (a parser, say) has state that nobody else has."""
    counted: list[tuple[End, str]] = []
    kept = continuity(request(), WordEngine(tokens=(b"x", b"y")), counted)
    shown = WordEngine(tokens=(b"a", b"b"))
    kept.take_or(DIALECTS[Api.CHAT].counted)(b"".join(list(shown.stream(Api.CHAT, PROMPT, 50))[:2]))
    assert await kept.rest(LOST) is None
    assert counted == [(End.REFUSED, Obstacle.TEXT)]


async def test_without_its_tokenizer_a_stream_is_not_continued() -> None:
    """A store that is away costs the continuation, nothing else."""

    class Away(WordEngine):
        async def pieces(self, *_: object, **__: object) -> list[str]:
            raise StoreUnavailable

    counted: list[tuple[End, str]] = []
    engine = Away(tokens=(b"a", b"b"))
    kept = continuity(request(), engine, counted)
    kept.take_or(DIALECTS[Api.CHAT].counted)(b"".join(list(engine.stream(Api.CHAT, PROMPT, 50))[:2]))
    assert await kept.rest(LOST) is None
    assert counted == [(End.REFUSED, Obstacle.TOKENIZER)]


@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"error":{"message":"secret","code":500}}\n\ndata: [DONE]\n\n',
        b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"c"},"finish_reason":"abort","token_ids":[9]}]}\n\n',
    ],
    ids=["error", "abort"],
)
async def test_how_an_engine_gives_up_is_no_part_of_the_answer(broken: bytes) -> None:
    """An error or an aborted request, also in one read with tokens, adds nothing to what is known of the answer."""
    engine = WordEngine(tokens=(b"a", b"b", b"c"))
    kept = continuity(request(), engine)
    events = list(engine.stream(Api.CHAT, PROMPT, 50))[:3]
    kept.take_or(DIALECTS[Api.CHAT].counted)(b"".join(events) + broken)
    assert not kept.ending(has_usage=False)
    rest = await kept.rest(LOST)
    assert rest is not None
    assert rest.body["prompt"] == [*PROMPT, FIRST_ID, FIRST_ID + 1]


async def test_another_answer_than_before_is_found_out() -> None:
    """Text that has to come again and does not is an error, not a seam in the middle of a word."""
    engine = WordEngine(tokens=(b"ab<", b"<", b"c"), stops=("<>>",))
    asked = request(stop=["<>>"])
    kept = continuity(asked, engine)
    take = kept.take_or(DIALECTS[Api.CHAT].counted)
    for event in list(engine.stream(Api.CHAT, PROMPT, 50))[:3]:
        take(event)
    rest = await kept.rest(LOST)
    assert rest is not None
    other = WordEngine(tokens=(b"zz", b"z"), stops=("<>>",))
    with pytest.raises(ValueError, match=r"another way|said again"):
        kept.take_or(DIALECTS[Api.CHAT].counted)(b"".join(other.stream(rest.api, _ids(rest.body["prompt"]), 50)))


def test_errors_are_what_they_are() -> None:
    """The reasons are metric labels: short and distinct."""
    assert len({o.value for o in Obstacle}) == len(Obstacle)
    assert continuation.MAX_CONTINUATIONS < 4
    assert isinstance(LOST, PenstockError)
