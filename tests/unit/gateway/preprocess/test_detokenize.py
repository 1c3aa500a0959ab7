import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import StoreUnavailable
from penstock.gateway.preprocess.tokenizer_cache import Detokenizer, LoadedTokenizer, TokenizerCache
from tests.support.models import tokenizers
from tests.support.samples import calls

SMALL = tokenizers.small()
LOADED = LoadedTokenizer(SMALL)
VERSION = replace(calls.VERSION, tokenizer_sha256=hashlib.sha256(SMALL).hexdigest())


def ids(text: str) -> list[int]:
    return LOADED.encode((text,), add_special_tokens=False)[0]


@given(prompt=st.text(max_size=20), output=st.text("aé日🙂<> \n", max_size=30))
def test_pieces_join_to_the_text(prompt: str, output: str) -> None:
    """Every token has its piece, and together they are the text: nothing of the prompt, nothing twice."""
    pieces = LOADED.pieces(ids(prompt), ids(output), skip_special=True)
    assert len(pieces) == len(ids(output))
    assert "".join(pieces) == output


def test_half_a_character_has_no_text() -> None:
    """The token that completes a character has all of it, the ones before have none."""
    pieces = LOADED.pieces(ids("Say it."), ids("🙂"), skip_special=True)
    assert len(pieces) > 1
    assert pieces == [""] * (len(pieces) - 1) + ["🙂"]


@pytest.mark.parametrize(("skip_special", "text"), [(True, ""), (False, "<|im_end|>")])
def test_special_tokens_are_shown_where_asked(skip_special: bool, text: str) -> None:
    """A special token has a text only for who wants to see it."""
    assert LOADED.pieces(ids("a"), ids("<|im_end|>"), skip_special=skip_special) == [text]


async def test_it_reads_with_the_versions_tokenizer() -> None:
    """The version names the file; one that can't be read is told as such."""
    blobs = tokenizers.MemoryBlobs(SMALL)
    found = await Detokenizer(TokenizerCache(blobs)).pieces(VERSION, ids("a"), ids("hello"), skip_special=True)
    assert "".join(found) == "hello"

    class Away(tokenizers.MemoryBlobs):
        async def read(self, sha256: str) -> bytes:
            raise StoreUnavailable

    with pytest.raises(StoreUnavailable):
        await Detokenizer(TokenizerCache(Away())).pieces(VERSION, [1], [2], skip_special=True)
