"""Token ids that callers did not ask for: read for us, and gone from what they get."""

import json

import pytest

from penstock.domain.serving.shadow import TokenIds
from penstock.gateway.answers import content

CHAT = {
    "id": "x",
    "prompt_token_ids": [1, 2, 3],
    "choices": [{"message": {"content": 'say "token_ids":[9] and "prompt_token_ids":[8]'}, "token_ids": [4, 5]}],
}
COMPLETION = {"choices": [{"text": "hi", "token_ids": [4], "prompt_token_ids": [1, 2]}]}


@pytest.mark.parametrize(
    ("body", "ids"),
    [(CHAT, TokenIds(prompt=[1, 2, 3], answer=[4, 5])), (COMPLETION, TokenIds(prompt=[1, 2], answer=[4]))],
)
@pytest.mark.parametrize("separators", [(",", ":"), None])
def test_they_are_read_and_taken_out(
    body: dict[str, object], ids: TokenIds, separators: tuple[str, str] | None
) -> None:
    """In both dialects; a caller's text that looks like them stays as it is."""
    raw = json.dumps(body, separators=separators).encode()
    assert content.token_ids(raw) == ids
    left = content.without_token_ids(raw)
    bare = json.loads(left)
    assert content.token_ids(left) is None
    wished = json.loads(json.dumps(body))
    for holder in (wished, wished["choices"][0]):
        holder.update({name: None for name in ("token_ids", "prompt_token_ids") if name in holder})
    assert bare == wished


@pytest.mark.parametrize("body", [b"", b"[]", b'{"choices":[]}', b'{"choices":[{},{}]}', b'{"choices":[{"text":"a"}]}'])
def test_what_does_not_tell_them_all_tells_none(body: bytes) -> None:
    """Nor do several answers at once."""
    assert content.token_ids(body) is None
    assert content.without_token_ids(body) == body
