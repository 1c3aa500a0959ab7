"""A node's way to a version: verified or not at all, once per node, healed where its copy is damaged."""

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.connectors.folder.store import FolderStore
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import ModelName
from penstock.packaging.packing import Packed
from penstock.worker.artifacts.node import Watch
from tests.support.models.versions import CHOICES, Home, home_with_model, model_folder, safetensors

FETCHED = [WorkerState.FETCHING, WorkerState.VERIFYING]


@pytest.fixture
def stocked(tmp_path: Path) -> tuple[Home, Packed]:
    """Return a home with one signed version in its store."""
    return home_with_model(tmp_path)


def phases_of(home: Home, digest: str) -> list[WorkerState]:
    """Obtain the version, let it go and return the phases that took."""
    seen: list[WorkerState] = []
    home.node().obtain(digest, Watch(phase=seen.append)).hold.release()
    return seen


def test_a_version_is_fetched_verified_and_kept(stocked: tuple[Home, Packed]) -> None:
    """The first time everything is fetched; the second time it is only verified."""
    home, packed = stocked
    copy = home.node().obtain(packed.digest)
    assert copy.manifest == packed.manifest
    assert (copy.folder / "model.safetensors").read_bytes() == (home.root / "model/model.safetensors").read_bytes()
    copy.hold.release()
    assert phases_of(home, packed.digest) == [WorkerState.VERIFYING]


def test_a_warm_node_needs_no_store(stocked: tuple[Home, Packed]) -> None:
    """With the store gone, a version that is on the node is still verified and served."""
    home, packed = stocked
    home.node().obtain(packed.digest).hold.release()
    shutil.rmtree(home.root / "artifacts")
    assert phases_of(home, packed.digest) == [WorkerState.VERIFYING]


Tamper = Callable[[Path], object]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def link(path: Path) -> None:
    path.symlink_to(path.rename(path.parent.parent / "elsewhere.json"))


TAMPERING: dict[str, tuple[Tamper, str]] = {
    "altered weights": (lambda f: flip(f / "model.safetensors"), r"model\.safetensors"),
    "altered template": (lambda f: flip(f / "chat_template.jinja"), r"chat_template\.jinja"),
    "shorter file": (lambda f: (f / "tokenizer.json").write_bytes(b"{}"), r"tokenizer\.json has 2 bytes"),
    "altered manifest": (lambda f: flip(f / "manifest.json"), r"manifest\.json was altered"),
    "missing manifest": (lambda f: (f / "manifest.json").unlink(), r"manifest\.json is missing"),
    "missing file": (lambda f: (f / "config.json").unlink(), r"config\.json is missing"),
    "extra file": (lambda f: (f / "evil.py").write_text("1"), r"evil\.py is in .* not in its manifest"),
    "extra hidden file": (lambda f: (f / ".gitignore").write_text("*"), r"\.gitignore is in"),
    "extra folder": (lambda f: model_folder(f / "more"), r"more/\S+ is in"),
    "a link": (lambda f: link(f / "config.json"), r"config\.json is a link"),
}


@pytest.mark.parametrize(("tamper", "says"), TAMPERING.values(), ids=TAMPERING.keys())
def test_tampering_is_named_and_a_damaged_copy_fetched_again(
    stocked: tuple[Home, Packed], tamper: Tamper, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every change to a copy is noticed, the file named, and the copy replaced by a sound one."""
    home, packed = stocked
    copy = home.node().obtain(packed.digest)
    copy.hold.release()
    tamper(copy.folder)
    with pytest.raises(ArtifactRefused, match=says):
        home.node()._verified(packed.digest, copy.folder)
    assert phases_of(home, packed.digest) == [WorkerState.VERIFYING, *FETCHED]
    assert phases_of(home, packed.digest) == [WorkerState.VERIFYING]
    del capsys  # takes the log line


def test_altered_weights_in_the_store_never_serve(stocked: tuple[Home, Packed]) -> None:
    """A blob changed in the store is refused by name; neither a copy nor a half copy is left."""
    home, packed = stocked
    weights = next(file for file in packed.manifest.files if file.path == "model.safetensors")
    flip(home.root / "artifacts/blobs" / weights.sha256)
    with pytest.raises(ArtifactRefused, match=r"model\.safetensors .* damaged or was altered"):
        home.node().obtain(packed.digest)
    assert not (home.cache / packed.digest).exists()
    home.publish(home.root / "model")  # is all there, so nothing is stored again: the operator pushes the weights
    home.store.put(weights.sha256, home.root / "model/model.safetensors")
    assert phases_of(home, packed.digest) == FETCHED


def test_an_unsigned_version_is_refused(stocked: tuple[Home, Packed]) -> None:
    """Without a signature nothing is even fetched."""
    home, packed = stocked
    (home.root / "artifacts/signatures" / packed.digest).unlink()
    with pytest.raises(ArtifactRefused, match="not signed: push it again"):
        home.node().obtain(packed.digest)
    assert not list(home.cache.glob("*.part"))


def test_another_key_is_refused(stocked: tuple[Home, Packed], tmp_path: Path) -> None:
    """A version that somebody else signed is refused with both keys' names."""
    home, packed = stocked
    stranger, _ = home_with_model(tmp_path / "stranger")
    signature = stranger.store.signature(packed.digest)
    assert signature is not None
    home.store.put_signature(packed.digest, signature)
    with pytest.raises(ArtifactRefused, match="signed with another key"):
        home.node().obtain(packed.digest)


def test_a_signature_that_claims_our_key_is_refused(stocked: tuple[Home, Packed], tmp_path: Path) -> None:
    """Naming the right key does not help a signature that it did not make."""
    home, packed = stocked
    stranger, _ = home_with_model(tmp_path / "stranger")
    ours, theirs = (json.loads(h.store.signature(packed.digest) or b"") for h in (home, stranger))
    theirs["verificationMaterial"] = ours["verificationMaterial"]
    home.store.put_signature(packed.digest, json.dumps(theirs).encode())
    with pytest.raises(ArtifactRefused, match="another key than this platform's, or was altered"):
        home.node().obtain(packed.digest)


@pytest.mark.parametrize("signature", [b"", b"nonsense", b"{}", b"[]", b'{"verificationMaterial": {"publicKey": 3}}'])
def test_a_broken_signature_is_refused(stocked: tuple[Home, Packed], signature: bytes) -> None:
    """Whatever stands in a signature's place, the answer is a refusal."""
    home, packed = stocked
    home.store.put_signature(packed.digest, signature)
    with pytest.raises(ArtifactRefused):
        home.node().obtain(packed.digest)


def test_a_signature_of_another_version_is_refused(stocked: tuple[Home, Packed], tmp_path: Path) -> None:
    """A signature by the right key covers one version only."""
    home, packed = stocked
    other = home.publish(model_folder(tmp_path / "other", size=900), replace(CHOICES, name=ModelName("other")))
    home.store.put_signature(packed.digest, home.store.signature(other.digest) or b"")
    with pytest.raises(ArtifactRefused, match=r"Hash mismatch for .*manifest\.json"):
        home.node().obtain(packed.digest)


def test_no_public_key_means_no_serving(stocked: tuple[Home, Packed]) -> None:
    """A worker without the platform's public key refuses everything and says where it looked."""
    home, packed = stocked
    shutil.rmtree(home.root / "signing")
    with pytest.raises(ArtifactRefused, match=r"no public key at .*public\.pem"):
        home.node().obtain(packed.digest)


def test_signed_nonsense_is_still_refused(stocked: tuple[Home, Packed], monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature says who, not what: weights with a lying header are refused although they are signed."""
    home, _ = stocked
    folder = model_folder(home.root / "lying")
    (folder / "model.safetensors").write_bytes(safetensors({"w": 3}, b""))
    with monkeypatch.context() as careless:
        careless.setattr("penstock.packaging.packing.check_contents", lambda _: None)
        packed = home.publish(folder)
    with pytest.raises(ArtifactRefused, match="not a sound safetensors file"):
        home.node().obtain(packed.digest)


def test_workers_of_one_node_share_one_fetch(stocked: tuple[Home, Packed]) -> None:
    """Of several that want a version at once, one fetches and the others find it there."""
    home, packed = stocked
    ready = threading.Barrier(4)

    def obtain(_: int) -> list[WorkerState]:
        seen: list[WorkerState] = []
        ready.wait()
        home.node().obtain(packed.digest, Watch(phase=seen.append))
        return seen

    with ThreadPoolExecutor(4) as pool:
        ways = sorted(pool.map(obtain, range(4)), key=len)
    assert ways == [[WorkerState.VERIFYING]] * 3 + [FETCHED]


def test_a_copy_that_came_ahead_is_only_verified(stocked: tuple[Home, Packed]) -> None:
    """Several workers of a node bring it once, without its engine; it stays while one of them holds it."""
    home, packed = stocked
    with ThreadPoolExecutor(4) as pool:
        holds = list(pool.map(lambda _: home.node().ahead(packed.digest), range(4)))
    shutil.rmtree(home.root / "artifacts")
    assert phases_of(home, packed.digest) == [WorkerState.VERIFYING]
    for kept in (True, False):
        home.node(budget_bytes=1).cache.make_room(1)
        assert home.node().cache.folder(packed.digest).is_dir() is kept
        for hold in holds:
            hold.release()


def test_a_copy_comes_ahead_within_the_budget_alone(stocked: tuple[Home, Packed]) -> None:
    """Kubelet evicts from a full disk: a version that is served is fetched beyond the budget, one ahead is not."""
    home, packed = stocked
    small = home.node(budget_bytes=packed.manifest.size_bytes - 1)
    with pytest.raises(StoreUnavailable, match="no room in"):
        small.ahead(packed.digest)
    assert not small.cache.folder(packed.digest).exists()
    small.obtain(packed.digest).hold.release()
    assert small.cache.folder(packed.digest).is_dir()


def test_a_killed_fetch_is_taken_up_by_the_next(stocked: tuple[Home, Packed]) -> None:
    """What an interrupted fetch left in the staging folder is used, and then gone."""
    home, packed = stocked

    class Dying(FolderStore):
        def read_range(self, sha256: str, start: int, length: int) -> bytes:
            if start >= 512:
                raise StoreUnavailable("gone")
            return super().read_range(sha256, start, length)

    with pytest.raises(StoreUnavailable):
        home.node(Dying(home.root / "artifacts")).obtain(packed.digest)
    part = home.cache / f".{packed.digest}.part/model.safetensors.part"
    assert part.stat().st_size == 512
    assert phases_of(home, packed.digest) == FETCHED
    assert not part.parent.exists()


def test_a_cache_that_cannot_be_written_is_unavailable(stocked: tuple[Home, Packed]) -> None:
    """An error of the operating system names the folder instead of a traceback."""
    home, packed = stocked
    node = home.node()
    home.cache.rmdir()
    home.cache.write_text("in the way")
    with pytest.raises(StoreUnavailable, match=f"can't write to {home.cache}: Not a directory"):
        node.obtain(packed.digest)
