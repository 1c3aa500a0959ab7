"""Tokenizers for tests: a small one trained here, and those of prepared demo models."""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HOME = Path(__file__).resolve().parents[3] / ".penstock"

SMOLLM2_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def small() -> bytes:
    """Return ``tokenizer.json`` of a byte-level BPE of the same kind as SmolLM2's; one that truncates and pads."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = Path(__file__).read_text(encoding="utf-8") + SMOLLM2_TEMPLATE
    tokenizer.train_from_iterator(text.splitlines(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    return tokenizer.to_str().encode()


def demo(mark: str) -> bytes | None:
    """Return the demo model's ``tokenizer.json`` that knows the token ``mark``; None if none is prepared."""
    for path in sorted(HOME.glob("**/demo/**/tokenizer.json")):
        blob = path.read_bytes()
        if any(token["content"] == mark for token in json.loads(blob)["added_tokens"]):
            return blob
    return None


class MemoryBlobs:
    def __init__(self, *blobs: bytes) -> None:
        self.blobs = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
        self.reads = 0

    async def read(self, sha256: str) -> bytes:
        self.reads += 1
        return self.blobs[sha256]
