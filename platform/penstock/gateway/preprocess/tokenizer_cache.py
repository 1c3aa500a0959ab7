"""Tokenizers by file digest: each is loaded once and verified; the number is bounded."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from tokenizers.models import BPE

from penstock.domain.errors import ArtifactRefused
from penstock.domain.fleet.table import VersionEntry

TEXT_WORK = 32
"""Fixed work of each text, in characters: about 7 µs."""
OTHERS_WORK = 16
"""Work factor of WordPiece and Unigram, which try every piece of a word: 4,096 characters in words of 99 take 67 ms,
merging them 0.4.
"""
_ADDED = 8
"""Tokens added around any text: begin, end, and the space that some tokenisers prepend."""


class BlobSource(Protocol):
    async def read(self, sha256: str) -> bytes:
        """The blob with this hex SHA-256; raises ``StoreUnavailable``."""
        ...


class LoadedTokenizer:
    """A tokenizer, and the largest number of characters in one of its tokens."""

    __slots__ = ("_char_work", "_tokenizer", "max_chars_per_token")

    def __init__(self, blob: bytes) -> None:
        self._tokenizer = Tokenizer.from_buffer(blob)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._char_work = 1 if isinstance(self._tokenizer.model, BPE) else OTHERS_WORK
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.max_chars_per_token = max((len(token) for token in vocabulary), default=1)

    def encode(self, texts: tuple[str, ...], *, add_special_tokens: bool) -> list[list[int]]:
        """Releases the interpreter lock during the work, unlike ``Tokenizer.encode``."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]

    def work(self, texts: Sequence[str]) -> int:
        """Worst-case work, in characters of one text that is merged byte by byte."""
        return self._char_work * sum(map(len, texts)) + TEXT_WORK * len(texts)

    def most_tokens(self, text: str) -> int:
        """Return an upper bound: one token per byte after normalisation."""
        normalizer = self._tokenizer.normalizer
        shown = text if normalizer is None else normalizer.normalize_str(text)
        return len(shown.encode(errors="surrogatepass")) + _ADDED

    def pieces(self, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool) -> list[str]:
        stream = DecodeStream(ids=list(prompt), skip_special_tokens=skip_special)
        found = []
        for token in output:
            try:
                found.append(stream.step(self._tokenizer, token) or "")
            except Exception:  # noqa: BLE001  the library's own: bytes that no later token can make a text of
                break
        return found


class TokenizerCache:
    def __init__(self, source: BlobSource, most: int = 16) -> None:
        self._source = source
        self._most = most
        self._loaded: OrderedDict[str, LoadedTokenizer] = OrderedDict()
        self._loading: dict[str, asyncio.Task[LoadedTokenizer]] = {}

    async def get(self, sha256: str) -> LoadedTokenizer:
        """Raises ``StoreUnavailable``, or ``ArtifactRefused`` for another digest."""
        loaded = self._loaded.get(sha256)
        if loaded is not None:
            self._loaded.move_to_end(sha256)
            return loaded
        task = self._loading.get(sha256)
        if task is None:
            task = self._loading[sha256] = asyncio.get_running_loop().create_task(self._load(sha256))
            task.add_done_callback(lambda done: self._done(sha256, done))
        # One caller's cancellation must not take the file from the others.
        return await asyncio.shield(task)

    def __len__(self) -> int:
        return len(self._loaded)

    async def _load(self, sha256: str) -> LoadedTokenizer:
        blob = await self._source.read(sha256)
        return await asyncio.to_thread(_parse, blob, sha256)

    def _done(self, sha256: str, task: asyncio.Task[LoadedTokenizer]) -> None:
        del self._loading[sha256]
        if task.cancelled() or task.exception() is not None:
            return
        self._loaded[sha256] = task.result()
        while len(self._loaded) > self._most:
            self._loaded.popitem(last=False)


def _parse(blob: bytes, sha256: str) -> LoadedTokenizer:
    if hashlib.sha256(blob).hexdigest() != sha256:
        raise ArtifactRefused("the tokenizer is not the file that the version names")
    return LoadedTokenizer(blob)


class Detokenizer:
    """Implements streaming's ``TokenReader`` with the loaded tokenizers."""

    def __init__(self, tokenizers: TokenizerCache) -> None:
        self._tokenizers = tokenizers

    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        tokenizer = await self._tokenizers.get(version.tokenizer_sha256)
        return await asyncio.to_thread(tokenizer.pieces, prompt, output, skip_special=skip_special)
