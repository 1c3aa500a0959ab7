"""The platform's health probe to an engine: the smallest request that it can compute."""

from penstock.domain.models.model import Task
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM

EXAMPLES = "examples"
"""A field of the platform's own requests to classifiers: the number of the handler's example inputs."""


def question(task: Task) -> tuple[Api, dict[str, object]]:
    if task is Task.EMBED:
        return Api.EMBEDDINGS, {"input": [[1]]}
    if task is Task.CLASSIFY:
        return Api.CLASSIFY, {EXAMPLES: 1}
    return Api.COMPLETIONS, {"prompt": [1], "max_tokens": 1, "cache_salt": PLATFORM}
