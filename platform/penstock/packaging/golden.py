"""Golden prompts of a version, read from a file."""

from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt
from penstock.formats.documents import json_of


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
