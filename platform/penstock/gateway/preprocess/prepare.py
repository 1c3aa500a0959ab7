"""Turns a request into prompt tokens (exact, or an upper bound), checks the context, and hashes blocks for routing.

Trade-off: prompts up to ``inline_chars`` (below a millisecond) are tokenised on the event loop, since a thread hop
costs more; longer ones in a small pool, so that no stream waits for them.
"""

import asyncio
from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from penstock.domain.clock import Clock
from penstock.domain.errors import ArtifactRefused, ContextTooLong, InvalidField, StoreUnavailable
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.models.model import Task
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.tenancy.tenant import Principal
from penstock.formats import chat_template
from penstock.gateway.preprocess import options, prompts
from penstock.gateway.preprocess.prompts import Prompts
from penstock.gateway.preprocess.tokenizer_cache import LoadedTokenizer, TokenizerCache

MAX_BLOCKS = 1_024
"""Blocks that routing compares: the rest of a longer prompt can't change where its beginning is cached."""


def seed(cache_salt: str, adapter: str = "") -> bytes:
    return blake2b(f"{cache_salt}\x1f{adapter}".encode(), digest_size=8).digest()


def hashes(tokens: Sequence[int], block_size: int, start: bytes) -> tuple[int, ...]:
    """One chained hash per full block; engines cache no partial block."""
    width = 4 * block_size
    raw = array("I", tokens[: MAX_BLOCKS * block_size]).tobytes()
    out: list[int] = []
    link = start
    for at in range(0, len(raw) - width + 1, width):
        link = blake2b(link + raw[at : at + width], digest_size=8).digest()
        out.append(int.from_bytes(link, "little"))
    return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreprocessSettings:
    inline_chars: int = 4_096
    threads: int = 2


class PromptPreprocessor:
    def __init__(self, tokenizers: TokenizerCache, clock: Clock, settings: PreprocessSettings | None = None) -> None:
        self._tokenizers = tokenizers
        self._settings = settings or PreprocessSettings()
        self._templates = chat_template.cache(lambda: datetime.fromtimestamp(clock.now(), tz=UTC).astimezone())
        self._pool = ThreadPoolExecutor(self._settings.threads, thread_name_prefix="tokenise")

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        if version.handler is not None and version.counts_by_item:
            cost = request.cost
            return Prepared(prompt_tokens=version.handler.item_tokens * cost.prompts + cost.decode_tokens)
        asked = self._prompts(request, version)
        if not asked.is_exact:
            most = await self._bound(asked, version)
            if principal.plan.max_context_tokens:
                _check_context([most], request, version, principal, asked)
            return Prepared(prompt_tokens=most, is_counted=False, told=asked.told)
        limit = _truncation(request, version)
        tokens = list(asked.ids) or await self._tokens(asked, version)
        least = version.max_model_len if options.is_padded(request.api, request.body) else 0
        counts = [max(least, min(len(ids), limit)) for ids in tokens]
        _check_context(counts, request, version, principal, asked)
        if version.task is not Task.GENERATE or len(tokens) != 1 or len(tokens[0]) > limit:
            return Prepared(prompt_tokens=sum(counts), told=asked.told)
        start = seed(principal.cache_salt, version.id if version.base else "")
        blocks = hashes(tokens[0], version.block_size, start)
        return Prepared(prompt_tokens=counts[0], blocks=blocks, told=asked.told)

    async def warm(self, versions: Iterable[VersionEntry]) -> None:
        """Preload tokenizers and templates; failures are retried at the first request."""
        for version in versions:
            if not version.tokenizer_sha256:
                continue
            with suppress(StoreUnavailable, ArtifactRefused):
                await self._tokenizers.get(version.tokenizer_sha256)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _bound(self, asked: Prompts, version: VersionEntry) -> int:
        """Return an upper bound for a prompt that only the engine can render: its bytes, at most the context."""
        if not asked.texts:
            return version.max_model_len
        tokenizer = await self._tokenizers.get(version.tokenizer_sha256)
        return min(version.max_model_len, sum(tokenizer.most_tokens(text) for text in asked.texts))

    def _prompts(self, request: InferenceRequest, version: VersionEntry) -> Prompts:
        if not prompts.is_conversation(request):
            return prompts.given(request)
        return prompts.rendered(request, version, self._templates(prompts.template_source(version)))

    async def _tokens(self, asked: Prompts, version: VersionEntry) -> list[list[int]]:
        tokenizer = await self._tokenizers.get(version.tokenizer_sha256)
        for text in asked.texts:
            _check_chars(len(text), tokenizer, version, asked.param)
        if tokenizer.work(asked.texts) <= self._settings.inline_chars:
            return tokenizer.encode(asked.texts, add_special_tokens=asked.add_special_tokens)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _encode, tokenizer, asked)


def _encode(tokenizer: LoadedTokenizer, asked: Prompts) -> list[list[int]]:
    return tokenizer.encode(asked.texts, add_special_tokens=asked.add_special_tokens)


def _truncation(request: InferenceRequest, version: VersionEntry) -> int:
    answers = 1 if prompts.requested_output(request.api, request.body) else 0
    return options.kept_tokens(request.api, request.body, version.max_model_len - answers)


def _check_chars(chars: int, tokenizer: LoadedTokenizer, version: VersionEntry, param: str) -> None:
    """Refuse, before tokenising, text that can't fit with any tokenisation (as the engine does)."""
    most = version.max_model_len * tokenizer.max_chars_per_token
    if chars > most:
        raise ContextTooLong(
            f"the prompt has {chars} characters; the model's context of {version.max_model_len} tokens "
            f"holds at most {most}: shorten it",
            param=param,
        )


def _room_of_each(request: InferenceRequest) -> int:
    """Output tokens of several prompts; raises ``InvalidField`` if nothing bounds them."""
    if request.cost.names_no_output:
        raise InvalidField("this plan limits the context: give max_tokens with several prompts", param="max_tokens")
    return request.cost.output_each


def _check_context(
    counts: Sequence[int], request: InferenceRequest, version: VersionEntry, principal: Principal, asked: Prompts
) -> None:
    output = prompts.requested_output(request.api, request.body)
    longest, context = max(counts), principal.context(version.max_model_len)
    plans = context < version.max_model_len
    room = output or (1 if version.task is Task.GENERATE else 0)
    if plans and room and not output and len(counts) > 1:
        room = _room_of_each(request)
    if longest + room > context:
        wish = f" and the request asks for up to {output} more" if output else ""
        left = context - longest
        remedy = f"ask for at most {left} or shorten the prompt" if output and left > 0 else "shorten the prompt"
        has = "has" if asked.is_exact else "is counted by the engine alone and may have"
        raise ContextTooLong(
            f"the prompt {has} {longest} tokens{wish}; "
            + (f"this {principal.context_of}'s plan allows" if plans else "the model's context is")
            + f" {context} tokens: {remedy}",
            param=asked.param,
            reason=f"{principal.context_of}_context" if plans else None,
        )
