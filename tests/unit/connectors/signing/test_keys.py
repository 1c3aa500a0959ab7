"""The signing key pair is made once, private, and the same for everybody who starts at the same time."""

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.connectors.signing.keys import PRIVATE, PUBLIC, ensure_key_pair
from penstock.connectors.signing.openssf import KeyPairSigner, PublicKeyVerifier
from penstock.domain.errors import ArtifactRefused
from tests.support.models.versions import model_folder


def test_the_pair_is_made_once(tmp_path: Path) -> None:
    """A second start finds the pair and leaves it as it is."""
    ensure_key_pair(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ensure_key_pair(tmp_path)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {PRIVATE, PUBLIC}


def test_the_private_key_is_private_and_p256(tmp_path: Path) -> None:
    """Only the owner may read the private key; its curve is P-256."""
    ensure_key_pair(tmp_path / "signing")
    path = tmp_path / "signing" / PRIVATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"


def test_a_lost_or_wrong_public_key_is_written_again(tmp_path: Path) -> None:
    """The public key always belongs to the private one."""
    public = ensure_key_pair(tmp_path)
    right = public.read_bytes()
    public.write_text("something else")
    assert ensure_key_pair(tmp_path).read_bytes() == right


def test_simultaneous_first_starts_agree(tmp_path: Path) -> None:
    """Whoever comes first makes the key; all end with the same pair, and nothing else lies about."""
    with ThreadPoolExecutor(8) as pool:
        publics = list(pool.map(lambda _: ensure_key_pair(tmp_path).read_bytes(), range(8)))
    assert len(set(publics)) == 1
    assert {path.name for path in tmp_path.iterdir()} == {PRIVATE, PUBLIC}


@pytest.mark.parametrize("change", [lambda pem: pem, lambda pem: pem.rstrip(), lambda pem: pem.replace("\n", "\r\n")])
def test_a_public_key_verifies_however_its_lines_end(tmp_path: Path, change: Callable[[str], str]) -> None:
    """A secret store that cuts or changes line ends leaves the key valid; a file without a key is refused."""
    signer, model = KeyPairSigner(tmp_path / "signing"), model_folder(tmp_path / "model")
    bundle, public = signer.sign(model), tmp_path / "signing-public-key"
    public.write_bytes(change((tmp_path / "signing" / PUBLIC).read_text()).encode())
    PublicKeyVerifier(public).verify(model, bundle)
    public.write_text("no key")
    with pytest.raises(ArtifactRefused, match="is no public key in PEM"):
        PublicKeyVerifier(public).verify(model, bundle)


def test_a_bundle_names_its_key(tmp_path: Path) -> None:
    """A signer knows its own bundles from a stranger's, without hashing the model."""
    ours, theirs = KeyPairSigner(tmp_path / "ours"), KeyPairSigner(tmp_path / "theirs")
    bundle = ours.sign(model_folder(tmp_path / "model"))
    assert ours.has_signed(bundle)
    assert not theirs.has_signed(bundle)
    assert not ours.has_signed(b"nonsense")
