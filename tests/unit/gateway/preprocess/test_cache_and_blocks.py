import asyncio
import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.ids import VersionId
from penstock.gateway.preprocess import prepare
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from tests.support.clock import ManualClock
from tests.support.models import tokenizers
from tests.support.samples import calls

SMALL = tokenizers.small()
DIGEST = hashlib.sha256(SMALL).hexdigest()


async def test_tokenizer_is_loaded_once() -> None:
    """However many ask at the same time, the file is read once."""
    source = tokenizers.MemoryBlobs(SMALL)
    cache = TokenizerCache(source)
    got = await asyncio.gather(*(cache.get(DIGEST) for _ in range(10)))
    assert source.reads == 1
    assert len({id(tokenizer) for tokenizer in got}) == 1


async def test_failed_load_is_tried_again() -> None:
    """A store that was away for a moment is asked again."""

    class Flaky(tokenizers.MemoryBlobs):
        async def read(self, sha256: str) -> bytes:
            if not self.reads:
                self.reads += 1
                raise StoreUnavailable
            return await super().read(sha256)

    cache = TokenizerCache(Flaky(SMALL))
    with pytest.raises(StoreUnavailable):
        await cache.get(DIGEST)
    await asyncio.sleep(0)
    assert (await cache.get(DIGEST)).max_chars_per_token > 1


async def test_one_callers_cancellation_spares_the_others() -> None:
    """A client that leaves does not stop the load for those who wait beside it."""
    cache = TokenizerCache(tokenizers.MemoryBlobs(SMALL))
    first, second = (asyncio.create_task(cache.get(DIGEST)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).max_chars_per_token > 1


async def test_other_file_is_refused() -> None:
    """A blob that is not what its name says never tokenises anything."""
    source = tokenizers.MemoryBlobs(SMALL)
    source.blobs["0" * 64] = SMALL
    with pytest.raises(ArtifactRefused):
        await TokenizerCache(source).get("0" * 64)


async def test_a_table_warms_what_its_requests_will_need() -> None:
    """Tokenizers are there before the first request; one that can't be read now spoils nothing."""
    source = tokenizers.MemoryBlobs(SMALL)
    source.blobs["0" * 64] = SMALL
    cache = TokenizerCache(source)
    preprocessor = PromptPreprocessor(cache, ManualClock())
    lost, there = (replace(calls.VERSION, tokenizer_sha256=digest) for digest in ("0" * 64, DIGEST))
    await preprocessor.warm([lost, there])
    assert len(cache) == 1
    preprocessor.close()


async def test_cache_is_bounded() -> None:
    """The least recently used tokenizer makes room."""
    others = [SMALL + b" " * n for n in range(4)]
    cache = TokenizerCache(tokenizers.MemoryBlobs(*others), most=2)
    for blob in others:
        await cache.get(hashlib.sha256(blob).hexdigest())
        await asyncio.sleep(0)
    assert len(cache) == 2


_TOKENS = st.lists(st.integers(0, 60_000), max_size=200)


@given(_TOKENS, _TOKENS, st.integers(1, 32))
def test_equal_hashes_mean_equal_beginnings(one: list[int], two: list[int], size: int) -> None:
    """The n-th hashes agree exactly where the first n blocks do."""
    start = prepare.seed("salt")
    a, b = prepare.hashes(one, size, start), prepare.hashes(two, size, start)
    assert len(a) == len(one) // size
    for depth, (x, y) in enumerate(zip(a, b, strict=False), start=1):
        assert (x == y) == (one[: depth * size] == two[: depth * size])


@given(_TOKENS.filter(lambda tokens: len(tokens) >= 16), st.text(max_size=20), st.text(max_size=20))
def test_tenants_and_adapters_never_meet(tokens: list[int], salt: str, other: str) -> None:
    """Another salt, or another adapter, has no hash in common."""
    mine = set(prepare.hashes(tokens, 16, prepare.seed(salt)))
    if salt != other:
        assert not mine & set(prepare.hashes(tokens, 16, prepare.seed(other)))
    assert not mine & set(prepare.hashes(tokens, 16, prepare.seed(salt, "adapter")))


def test_depth_is_bounded() -> None:
    """A prompt without end does not cost without end."""
    assert len(prepare.hashes([1] * 100_000, 16, prepare.seed(""))) == prepare.MAX_BLOCKS


async def test_base_and_adapter_have_no_block_in_common() -> None:
    """The engine keeps their caches apart by the adapter's name, and so does routing."""
    preprocessor = PromptPreprocessor(TokenizerCache(tokenizers.MemoryBlobs(SMALL)), ManualClock())
    base = replace(calls.VERSION, tokenizer_sha256=DIGEST, block_size=2, chat_template="{{ messages[0].content }}")
    adapter = replace(base, id=VersionId("pirate@eeeeeeeeeeee"), base=base.id)
    body = {"messages": [{"role": "user", "content": "one two three four five six seven eight"}]}
    asked = calls.request(body=body)
    of_base, again, of_adapter = [
        (await preprocessor.prepare(asked, version, calls.principal())).blocks for version in (base, base, adapter)
    ]
    preprocessor.close()
    assert of_base == again
    assert of_base
    assert not set(of_base) & set(of_adapter)
