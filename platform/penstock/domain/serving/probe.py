"""The platform's health probe to an engine: the smallest request that it can compute."""

from penstock.domain.models.model import Task
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM

EXAMPLES = "examples"
"""A field of what the platform itself asks classifiers: so many of the inputs that a handler gives as its examples."""


def question(task: Task) -> tuple[Api, dict[str, object]]:
    if task is Task.EMBED:
        return Api.EMBEDDINGS, {"input": [[1]]}
    if task is Task.CLASSIFY:
        return Api.CLASSIFY, {EXAMPLES: 1}
    return Api.COMPLETIONS, {"prompt": [1], "max_tokens": 1, "cache_salt": PLATFORM}
