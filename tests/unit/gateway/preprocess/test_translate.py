"""What is not translated is left to the engine, whatever it is."""

import pytest

from penstock.gateway.preprocess.translate import EngineOnly, from_messages, from_responses

USER = {"type": "message", "role": "user", "content": "hi"}


@pytest.mark.parametrize("odd", [[1], {}, 5, True], ids=str)
def test_a_status_that_is_no_word_is_none(odd: object) -> None:
    """An item goes on where it says so, and not where something else stands there."""
    assert from_responses({"input": [{**USER, "status": odd}]}) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_block_of_no_kind_is_the_engines(role: str) -> None:
    """A list where a block says its kind is no fault of ours."""
    with pytest.raises(EngineOnly):
        from_messages({"messages": [{"role": role, "content": [{"type": [1]}]}]})
