"""Large bodies, read elsewhere: the same request, the same refusals, and what the gateway may still look at."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import BadRequest, PenstockError
from penstock.domain.serving.request import JSON_APIS, Api, Sealed
from penstock.gateway.openai import reading
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.reading import INLINE_BYTES, BodyReader, is_small
from penstock.gateway.preprocess import offload
from penstock.gateway.preprocess.offload import unsealed

INPUTS: dict[Api, dict[str, object]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.EMBEDDINGS: {"input": ["a", "b"]},
    Api.CLASSIFY: {"input": ["a", "b"]},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

BOUNDS = BodyBounds()
_ENCODER = msgspec.json.Encoder(enc_hook=unsealed)


class Here:
    """Does at once what another process would do."""

    async def ask(self, who: str, pieces: Sequence[bytes]) -> bytes:
        frame = memoryview(b"".join(pieces))[1:]
        try:
            return b"".join(reading.read(frame))
        except PenstockError as error:
            return offload.refusal(error)


READER = BodyReader(Here(), task=b"R")


def read(api: Api, raw: bytes) -> tuple[Parsed, str]:
    return asyncio.run(READER.read("a", api, raw, BOUNDS))


def wide(body: dict[str, object]) -> bytes:
    """Return a body that is too large for the event loop."""
    return msgspec.json.encode({"model": "m", **body}) + b" " * INLINE_BYTES


def told(reading: Callable[[], Parsed]) -> object:
    """Return everything that was read, or how it was refused."""
    try:
        parsed = reading()
    except BadRequest as error:
        return type(error), error.message, error.param
    fields = msgspec.structs.asdict(parsed)
    return {**fields, "body": msgspec.json.decode(_ENCODER.encode(parsed.body))}


@pytest.mark.parametrize("api", JSON_APIS)
@given(changes=st.dictionaries(st.text(max_size=8), json_values, max_size=6))
def test_a_large_body_says_the_same_as_a_small_one(api: Api, changes: dict[str, object]) -> None:
    """What is read elsewhere goes on to the engine as it would from here, or is refused with the same words."""
    raw = wide({**INPUTS[api], **changes})
    assert told(lambda: read(api, raw)[0]) == told(lambda: parse(api, raw, BOUNDS))


def test_small_fields_of_a_large_body_can_be_looked_at() -> None:
    """Temperature, stop and user are there; the conversation is not, but for what others must know of it."""
    turns = [{"role": "user", "content": "x" * 9000}] * 3
    raw = msgspec.json.encode({"model": "m", "messages": turns, "temperature": 0, "stop": ["a"], "user": "y" * 9000})
    parsed, _ = read(Api.CHAT, raw)
    messages = parsed.body["messages"]
    assert (parsed.body["temperature"], parsed.body["stop"]) == (0, ["a"])
    assert isinstance(messages, Sealed)
    assert (messages.items, messages.is_text) == (3, True)
    assert isinstance(parsed.body["user"], Sealed)


def test_the_digest_is_of_what_a_body_means() -> None:
    """Order and white space don't matter, a word does: an idempotency key finds its answer again."""
    first, again, other = (
        wide(body)
        for body in (
            {"messages": [{"role": "user", "content": "hi"}], "n": 1},
            {"n": 1, "messages": [{"content": "hi", "role": "user"}]},
            {"messages": [{"role": "user", "content": "ho"}], "n": 1},
        )
    )
    digests = [(read(Api.CHAT, raw))[1] for raw in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("raw", "small"),
    [(b"x" * INLINE_BYTES, True), (b"x" * (INLINE_BYTES + 1), False), (b"[" * 257, False), (b"[" * 256, True)],
)
def test_a_body_is_small_by_its_length_and_by_what_it_can_hold(raw: bytes, small: bool) -> None:
    """Thousands of empty objects in a few kilobytes are not read on the event loop either."""
    assert is_small(raw) is small


def test_a_fault_elsewhere_is_told_by_its_kind_alone() -> None:
    """What an exception says may hold a prompt."""
    answer = offload.refusal(ValueError("my prompt"))
    with pytest.raises(RuntimeError, match="ValueError") as caught:
        offload.result(answer)
    assert "prompt" not in str(caught.value)
