"""Reads a folder in Hugging Face layout: task, chat template, special tokens, sampling, context length."""

from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, SamplingDefaults, Task
from penstock.formats.documents import DocumentRefused, json_of

DEFAULT_CONTEXT_TOKENS = 2048
_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_EMBEDS = ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel", "NomicBertModel", "MPNetModel")


def read_json(folder: Path, name: str) -> dict[str, object]:
    """Return no fields if there is no such file."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        found = json_of(path.read_bytes())
    except DocumentRefused as error:
        raise ArtifactRefused(f"{name}: {error}") from error
    if not isinstance(found, dict):
        raise ArtifactRefused(f"{name} is not a JSON object")
    return found


def task_of(folder: Path) -> Task:
    """Raises ``ArtifactRefused`` if the model's settings name no task."""
    if (folder / "modules.json").is_file():
        return Task.EMBED
    named = read_json(folder, "config.json").get("architectures")
    architectures = [str(name) for name in named] if isinstance(named, list) else []
    if any(name.endswith(_GENERATES) for name in architectures):
        return Task.GENERATE
    if any(name in _EMBEDS for name in architectures):
        return Task.EMBED
    raise ArtifactRefused(f"config.json names {architectures or 'no architecture'}: say the task, generate or embed")


def chat_template_of(folder: Path) -> str:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text()
    match read_json(folder, "tokenizer_config.json").get("chat_template"):
        case str(template):
            return template
        case list(named):
            found = {str(one.get("name")): str(one.get("template")) for one in named if isinstance(one, dict)}
            return found.get("default", "")
        case _:
            return ""


def special_tokens_of(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the texts of the special tokens that a template may use, by name."""
    settings = read_json(folder, "special_tokens_map.json") | read_json(folder, "tokenizer_config.json")
    found: dict[str, str] = {}
    for name, value in settings.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return tuple(sorted(found.items()))


def sampling_of(folder: Path) -> SamplingDefaults:
    settings = read_json(folder, "generation_config.json")
    top_k = _number(settings.get("top_k"))
    return SamplingDefaults(
        temperature=_number(settings.get("temperature")),
        top_p=_number(settings.get("top_p")),
        top_k=None if top_k is None else int(top_k),
        repetition_penalty=_number(settings.get("repetition_penalty")),
    )


def context_of(folder: Path) -> int:
    """Return the context length to serve: the model's limit, at most the default."""
    limits = [
        read_json(folder, "sentence_bert_config.json").get("max_seq_length"),
        read_json(folder, "config.json").get("max_position_embeddings"),
    ]
    return min([limit for limit in limits if isinstance(limit, int) and limit > 0] + [DEFAULT_CONTEXT_TOKENS])


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class _Golden(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str
    expect: str = ""
    max_tokens: int = GoldenPrompt(prompt="").max_tokens
    near: str = ""
    far: str = ""


def golden_of(path: Path) -> tuple[GoldenPrompt, ...]:
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
