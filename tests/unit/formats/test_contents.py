"""What a version may consist of is an allow-list; everything else is refused with the reason."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import Artifact, HandlerSettings, Manifest, canonical, digest_of
from penstock.formats import contents
from penstock.formats.contents import check_contents, check_manifest, refuse_name
from penstock.packaging.packing import describe, measure
from penstock.worker.artifacts.node import read_manifest
from tests.support.models.versions import CHOICES, model_folder


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Return the manifest of a sound model."""
    folder = model_folder(tmp_path / "model")
    return describe(folder, measure(folder), CHOICES)


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00002.safetensors", *contents.ALLOWED])
def test_what_models_consist_of_is_let_in(name: str) -> None:
    """Weights in shards, settings and tokenizers pass."""
    refuse_name(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((f"model{suffix}", "can run code when it is loaded") for suffix in sorted(contents.PICKLES)),
        ("modeling_llama.py", "carries no code"),
        ("kernel.so", "carries no code"),
        ("../config.json", "points outside"),
        ("/etc/passwd", "points outside"),
        ("a/../../model.safetensors", "points outside"),
        ("./config.json", "points outside"),
        ("..\\config.json", "points outside"),
        ("onnx/model.safetensors", "not a file that versions consist of"),
        ("README.md", "not a file that versions consist of"),
        ("", "points outside"),
    ],
)
def test_everything_else_is_refused(name: str, says: str) -> None:
    """Pickles, code, paths that climb out and unknown files are refused, each with its reason."""
    with pytest.raises(ArtifactRefused, match=says):
        refuse_name(name)


SHA = "0" * 64


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (Artifact(path="model.bin", sha256=SHA, size_bytes=1), "can run code"),
        (Artifact(path="config.json", sha256=SHA, size_bytes=1), "names a file twice"),
        (Artifact(path="modules.json", sha256="0" * 63, size_bytes=1), "no valid SHA-256"),
        (Artifact(path="modules.json", sha256="Z" * 64, size_bytes=1), "no valid SHA-256"),
        (Artifact(path="modules.json", sha256=SHA, size_bytes=-1), "no valid SHA-256 and size"),
    ],
)
def test_a_manifest_with_an_impossible_file_is_refused(manifest: Manifest, extra: Artifact, says: str) -> None:
    """The list of files is checked before a byte is fetched by it."""
    check_manifest(manifest)
    with pytest.raises(ArtifactRefused, match=says):
        check_manifest(replace(manifest, files=(*manifest.files, extra)))


@pytest.mark.parametrize("path", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_manifest_without_the_essentials_is_refused(manifest: Manifest, path: str) -> None:
    """Settings, tokenizer and weights must be there."""
    files = tuple(file for file in manifest.files if file.path != path)
    with pytest.raises(ArtifactRefused, match=r"is missing; a version needs it|no weights"):
        check_manifest(replace(manifest, files=files))


def test_a_manifest_is_read_back_as_it_was(manifest: Manifest) -> None:
    """The canonical text gives the same manifest, under its digest only."""
    raw = canonical(manifest)
    assert read_manifest(raw, digest_of(manifest)) == manifest
    with pytest.raises(ArtifactRefused, match="was altered"):
        read_manifest(raw + b" ", digest_of(manifest))


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"name": 3}', b"{}"])
def test_what_is_no_manifest_is_refused(raw: bytes) -> None:
    """Bytes under the right digest that are no manifest are refused in words."""
    with pytest.raises(ArtifactRefused, match=r"manifest\.json is not a manifest"):
        read_manifest(raw, hashlib.sha256(raw).hexdigest())


def test_oversized_and_broken_settings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are read within bounds; what isn't JSON is refused by name."""
    folder = model_folder(tmp_path / "model")
    check_contents(folder)
    (folder / "generation_config.json").write_text("{" * 5000)
    with pytest.raises(ArtifactRefused, match=r"generation_config\.json is not valid JSON"):
        check_contents(folder)
    monkeypatch.setattr(contents, "MAX_JSON_BYTES", 100)
    with pytest.raises(ArtifactRefused, match=r"generation_config\.json is larger than 100 bytes"):
        check_contents(folder)


def test_a_handler_s_code_is_let_in_where_a_handler_is_named(manifest: Manifest) -> None:
    """handler.py, labels and a card belong to a version that runs through a handler, and to no other."""
    more = tuple(Artifact(path=name, sha256=SHA, size_bytes=1) for name in ("handler.py", "labels.txt", "README.md"))
    weights = tuple(file for file in manifest.files if file.path.endswith(contents.WEIGHTS))
    handler = HandlerSettings(name=contents.HANDLER, inputs=(), outputs=(), labels="labels.txt")
    check_manifest(replace(manifest, files=(*weights, *more), handler=handler))
    with pytest.raises(ArtifactRefused, match="carries no code"):
        check_manifest(replace(manifest, files=(*manifest.files, more[0])))


@pytest.mark.parametrize("lacks", ["handler.py", "labels.txt"])
def test_what_a_handler_names_must_be_there(manifest: Manifest, lacks: str) -> None:
    """A handler without its file of code, or its labels, is refused before it is signed."""
    there = {"handler.py", "labels.txt"} - {lacks}
    more = tuple(Artifact(path=name, sha256=SHA, size_bytes=1) for name in sorted(there))
    handler = HandlerSettings(name=contents.HANDLER, inputs=(), outputs=(), labels="labels.txt")
    with pytest.raises(ArtifactRefused, match=f"{lacks} is missing"):
        check_manifest(replace(manifest, files=(*manifest.files, *more), handler=handler))


def test_other_code_is_refused_beside_a_handler_too(manifest: Manifest) -> None:
    """One file of code is allowed, under one name: nothing that it might import from beside itself."""
    more = tuple(Artifact(path=name, sha256=SHA, size_bytes=1) for name in ("handler.py", "other.py"))
    handler = HandlerSettings(name=contents.HANDLER, inputs=(), outputs=())
    with pytest.raises(ArtifactRefused, match=r"other\.py: a version carries no code"):
        check_manifest(replace(manifest, files=(*manifest.files, *more), handler=handler))
