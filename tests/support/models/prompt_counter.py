"""Counts prompts as the gateway does, with transformers beside it."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedTokenizerFast

from penstock.domain.clock import SystemClock
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api, Prepared
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from tests.support.models import tokenizers as real_tokenizers
from tests.support.samples.calls import VERSION, principal, request


@dataclass
class Counter:
    preprocessor: PromptPreprocessor
    version: VersionEntry
    reference: PreTrainedTokenizerFast

    async def count(self, body: dict[str, Any], api: Api = Api.CHAT, **changes: Any) -> Prepared:  # noqa: ANN401  any field
        version = replace(self.version, **changes)
        return await self.preprocessor.prepare(request(api=api, body=body), version, principal())

    def expected(self, messages: list[dict[str, Any]], template: str = "", **kwargs: Any) -> int:  # noqa: ANN401  any variable
        text = self.reference.apply_chat_template(
            messages, tokenize=False, chat_template=template or self.version.chat_template, **kwargs
        )
        return len(self.reference.encode(text, add_special_tokens=False))

    def on_top(self, api: Api) -> int:
        """Return how many special tokens the engine adds to a rendered chat of this API."""
        return len(self.reference.encode("")) if api is Api.RESPONSES else 0


def counter_of(blob: bytes) -> Counter:
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(blob.decode())
    backend.no_truncation()
    backend.no_padding()
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    version = replace(
        VERSION,
        tokenizer_sha256=hashlib.sha256(blob).hexdigest(),
        chat_template=real_tokenizers.SMOLLM2_TEMPLATE,
        special_tokens=tuple(special.items()),
    )
    preprocessor = PromptPreprocessor(TokenizerCache(real_tokenizers.MemoryBlobs(blob)), SystemClock())
    return Counter(preprocessor, version, PreTrainedTokenizerFast(tokenizer_object=backend, **special))
