"""Files that a version's folder may hold: safetensors weights, tokenizer, settings, a handler's code. No pickle.

The list of allowed files is checked before a version is signed and before it is loaded.
"""

import json
from pathlib import Path, PurePosixPath

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models import adapter
from penstock.domain.models.model import Artifact, HandlerSettings, Manifest, is_sha256
from penstock.formats.safetensors_header import check_safetensors

MANIFEST = "manifest.json"
WEIGHTS = ".safetensors"
MAX_JSON_BYTES = 64 << 20
PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".keras", ".joblib", ".npy", ".npz"})
HANDLER = "handler.py"
"""The only file of code in a version: its operator's own, signed with it, run by torch workers alone."""
CODE = frozenset({".py", ".pyc", ".so", ".dll", ".sh"})
ALLOWED = frozenset(
    {
        "config.json",
        "generation_config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
    }
)
REQUIRED = ("config.json", "tokenizer.json")
"""Files that vLLM needs."""
LABELS = "labels.txt"
WITH_HANDLER = ALLOWED | {HANDLER, LABELS, "README.md"}
"""A model with a handler may have a file of labels, and its model card."""


def refuse_name(path: str, allowed: frozenset[str] = ALLOWED) -> None:
    """Raise ``ArtifactRefused`` if a file of this path may not be part of a version."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or str(pure) != path:
        raise ArtifactRefused(f"{path!r} points outside the version's folder")
    if pure.suffix in PICKLES:
        raise ArtifactRefused(
            f"{path}: a file of this kind can run code when it is loaded; save the weights as safetensors"
        )
    if pure.suffix in CODE and path not in allowed:
        raise ArtifactRefused(f"{path}: a version carries no code; use an architecture that the engine knows")
    if path not in allowed and not (pure.suffix == WEIGHTS and len(pure.parts) == 1):
        raise ArtifactRefused(f"{path}: not a file that versions consist of; leave it out")


def check_manifest(manifest: Manifest) -> None:
    """Raise ``ArtifactRefused`` if the manifest's list of files is impossible."""
    handler = manifest.handler
    for file in manifest.files:
        refuse_name(file.path, adapter.FILES if manifest.adapter else WITH_HANDLER if handler else ALLOWED)
        if not is_sha256(file.sha256) or file.size_bytes < 0:
            raise ArtifactRefused(f"{file.path}: the manifest gives it no valid SHA-256 and size")
    paths = {file.path for file in manifest.files}
    if len(paths) != len(manifest.files):
        raise ArtifactRefused("the manifest names a file twice")
    adapter.check_slots(manifest.engine, generates=adapter.generates(manifest))
    if manifest.adapter is not None:
        _check_adapter(paths)
        return
    for name in _required(handler) if handler else REQUIRED:
        if name not in paths:
            raise ArtifactRefused(f"{name} is missing; a version needs it")
    if not any(path.endswith(WEIGHTS) for path in paths):
        raise ArtifactRefused("no weights: a version needs at least one .safetensors file")


def _check_adapter(paths: set[str]) -> None:
    if others := sorted(paths - adapter.FILES):
        raise ArtifactRefused(f"{others[0]}: an adapter consists of {', '.join(sorted(adapter.FILES))}")
    if missing := sorted(adapter.FILES - paths):
        raise ArtifactRefused(f"{missing[0]} is missing; an adapter needs it")


def _required(handler: HandlerSettings) -> list[str]:
    return [name for name in (HANDLER if handler.name == HANDLER else "", handler.labels) if name]


def check_listing(folder: Path, files: tuple[Artifact, ...]) -> None:
    """Raise ``ArtifactRefused`` unless the folder holds exactly these plain files, of the right size, and the
    manifest.
    """
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not _is_folder(path)}
    expected = {file.path: file.size_bytes for file in files}
    for name, path in sorted(found.items()):
        if path.is_symlink() or not path.is_file():
            raise ArtifactRefused(f"{name} is a link, not a file; a version consists of plain files")
        if name not in expected and name != MANIFEST:
            raise ArtifactRefused(f"{name} is in the version's folder but not in its manifest: remove it")
    for name, size in expected.items():
        if name not in found:
            raise ArtifactRefused(f"{name} is missing from the version's folder; fetch or push the version again")
        if found[name].stat().st_size != size:
            raise ArtifactRefused(f"{name} has {found[name].stat().st_size:,} bytes instead of {size:,}: altered")


def check_contents(folder: Path) -> None:
    """Raise ``ArtifactRefused`` for unsound weight headers or settings that ask for remote code."""
    for path in sorted(folder.glob(f"*{WEIGHTS}")):
        check_safetensors(path)
    for path in sorted(folder.rglob("*.json")):
        _refuse_code(path, path.relative_to(folder).as_posix())


def _refuse_code(path: Path, name: str) -> None:
    """Refuse ``auto_map``: it names Python files of the version's folder that a loader would import."""
    if path.stat().st_size > MAX_JSON_BYTES:
        raise ArtifactRefused(f"{name} is larger than {MAX_JSON_BYTES:,} bytes")
    if path.name == "tokenizer.json":
        return  # read by the Rust tokenizer, which runs nothing; and long
    try:
        settings = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ArtifactRefused(f"{name} is not valid JSON") from error
    if isinstance(settings, dict) and settings.get("auto_map"):
        raise ArtifactRefused(
            f"{name} needs its own code (auto_map); only architectures that the engine knows are served"
        )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
