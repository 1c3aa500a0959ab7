"""Turns tokens into text, in the pieces that an engine streams.

It is rarely used, and runs off the event loop: a long answer takes tens of milliseconds.
"""

import asyncio
from collections.abc import Sequence

from penstock.domain.fleet.table import VersionEntry
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache


class Detokenizer:
    """Implements streaming's ``TokenReader`` with the loaded tokenizers."""

    def __init__(self, tokenizers: TokenizerCache) -> None:
        self._tokenizers = tokenizers

    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        """Return the text that each output token completes; empty inside a character, fewer if a token has no text.

        Raises ``StoreUnavailable``, or ``ArtifactRefused`` for a tokenizer with another digest.
        """
        tokenizer = await self._tokenizers.get(version.tokenizer_sha256)
        return await asyncio.to_thread(tokenizer.pieces, prompt, output, skip_special=skip_special)
