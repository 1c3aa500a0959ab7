"""Tokenises texts into rows of token ids, padded to few lengths: little padding per batch, repeated shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from penstock.domain.errors import ContextTooLong, InvalidField
from penstock.worker.engines.torch.handler import Given, Prepared

IDS, MASK = "ids", "mask"
MAX_CHARS_PER_TOKEN = 64
"""Characters per accepted token after which a text is cut before tokenising: later characters have no effect."""

QUICK_CHARS = 1024
"""Characters that are tokenised in about 0.4 ms."""


def is_quick(given: Given) -> bool:
    return len(given) <= QUICK_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    tokenizer: Tokenizer
    buckets: tuple[int, ...]
    max_tokens: int

    def prepare(self, given: Given, param: str) -> Prepared:
        ids = self._ids(given, param)
        if not 0 < len(ids) <= self.max_tokens:
            raise ContextTooLong(f"{param} has {len(ids)} tokens; 1 to {self.max_tokens} are taken", param=param)
        length = next((one for one in self.buckets if len(ids) <= one), self.max_tokens)
        row, mask = torch.zeros(length, dtype=torch.int64), torch.zeros(length, dtype=torch.bool)
        row[: len(ids)] = torch.tensor(ids)
        mask[: len(ids)] = True
        return Prepared(features={IDS: row, MASK: mask}, tokens=len(ids), cost=len(ids), padded=length)

    def _ids(self, given: Given, param: str) -> Sequence[int]:
        if isinstance(given, bytes):
            try:
                given = given.decode()
            except UnicodeDecodeError as error:
                raise InvalidField(f"{param} is not UTF-8", param=param) from error
        if isinstance(given, str):
            cut = given[: self.max_tokens * MAX_CHARS_PER_TOKEN + 1]
            return self.tokenizer.encode(cut).ids
        if isinstance(given, dict):
            raise InvalidField(f"give {param} as text", param=param)
        size = self.tokenizer.get_vocab_size()
        if not all(type(one) is int and 0 <= one < size for one in given):
            raise InvalidField(f"{param} has a value that is no token id of this model", param=param)
        return list(given)  # type: ignore[arg-type]  # all are whole numbers


def load(folder: Path, buckets: tuple[int, ...], max_tokens: int) -> Texts:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Texts(tokenizer=tokenizer, buckets=tuple(sorted(buckets)), max_tokens=max_tokens)
