"""Golden prompts of a version: read from a file, refused if no wrong answer could fail them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, Task
from penstock.formats.documents import json_of

MOST_TOKENS = 256
"""Every worker answers all of them before it is ready."""


class _Golden(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str
    expect: str = ""
    max_tokens: int = GoldenPrompt(prompt="").max_tokens
    near: str = ""
    far: str = ""


def read(path: Path) -> tuple[GoldenPrompt, ...]:
    """Read a JSON list of ``GoldenPrompt`` objects; raises ``ArtifactRefused``."""
    try:
        found = msgspec.convert(json_of(path.read_bytes()), list[_Golden])
    except OSError as error:
        raise ArtifactRefused(f"{path}: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        known = ", ".join(_Golden.__struct_fields__)
        raise ArtifactRefused(f"{path.name}: {error}; write a list of objects with {known}") from error
    if not found:
        raise ArtifactRefused(f"{path.name} has no golden prompt in it")
    return tuple(GoldenPrompt(**msgspec.structs.asdict(one)) for one in found)


def check(prompts: Sequence[GoldenPrompt], task: Task) -> None:
    """Raise ``ArtifactRefused`` for a prompt that no model of this task could fail."""
    for number, one in enumerate(prompts, 1):
        if not one.prompt:
            fault = "it asks nothing"
        elif task is Task.EMBED and not (one.near and one.far):
            fault = "an embedding model needs near and far, texts of which the first must come out closer to the prompt"
        elif task is not Task.EMBED and not one.expect:
            fault = "say in expect what must be in the answer"
        elif not 0 < one.max_tokens <= MOST_TOKENS:
            fault = f"max_tokens must be from 1 to {MOST_TOKENS}"
        else:
            continue
        raise ArtifactRefused(f"golden prompt {number}: {fault}")
