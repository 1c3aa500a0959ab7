"""Preprocess: renders the prompt like the engine, and counts its tokens exactly before any GPU time is spent."""

from penstock.gateway.preprocess.offload import OffloadedPreprocessor
from penstock.gateway.preprocess.prepare import PreprocessSettings, PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import BlobSource, Detokenizer, TokenizerCache

__all__ = [
    "BlobSource",
    "Detokenizer",
    "OffloadedPreprocessor",
    "PreprocessSettings",
    "PromptPreprocessor",
    "TokenizerCache",
]
