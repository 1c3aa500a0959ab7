"""Tokens → text, in the pieces that an engine streams: for a stream that goes on at another worker.

Seldom used, and off the event loop: a long answer takes tens of milliseconds.
"""

import asyncio
from collections.abc import Sequence

from penstock.domain.fleet.table import VersionEntry
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache


class Detokenizer:
    """Streaming's ``TokenReader``, on the tokenizers that are loaded anyway."""

    def __init__(self, tokenizers: TokenizerCache) -> None:
        self._tokenizers = tokenizers

    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        """Return the text that each output token completes: empty if it ends in the middle of a character.

        The list is shorter if a token can't be turned into text. Raises ``StoreUnavailable``, or
        ``ArtifactRefused`` if the version's tokenizer is another file.
        """
        tokenizer = await self._tokenizers.get(version.tokenizer_sha256)
        return await asyncio.to_thread(tokenizer.pieces, prompt, output, skip_special=skip_special)
