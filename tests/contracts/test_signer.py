"""Every signer's promises, held against a key pair in a folder and a key in KMS over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connectors.signing import kms
from penstock.connectors.signing.keys import PUBLIC
from penstock.connectors.signing.kms import SCHEME, KmsSigner
from penstock.connectors.signing.openssf import KeyPairSigner, PublicKeyVerifier
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.packaging.ports import Signer
from tests.support.models.versions import model_folder
from tests.support.run_book import public_half
from tests.support.stores.s3_server import Spec, new_signing_key, s3_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(params=["key pair", "kms"])
def pair(
    request: pytest.FixtureRequest, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Signer, Path]:
    """Return each signer in turn, and its public key."""
    if request.param == "key pair":
        return KeyPairSigner(tmp_path / "keys"), tmp_path / "keys" / PUBLIC
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    return _in_kms(endpoint, tmp_path)


def _in_kms(endpoint: str, folder: Path) -> tuple[KmsSigner, Path]:
    """Return a signer and its public key, written by the commands of the first day."""
    key, der = new_signing_key(endpoint)
    return KmsSigner(f"{SCHEME}{key}"), public_half(der, folder)


def test_what_is_signed_is_verified_by_the_public_half(pair: tuple[Signer, Path], tmp_path: Path) -> None:
    """A signed folder verifies with the public half alone, and no longer once a byte of it has changed."""
    signer, public = pair
    model = model_folder(tmp_path / "model")
    bundle = signer.sign(model)
    PublicKeyVerifier(public).verify(model, bundle)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(ArtifactRefused):
        PublicKeyVerifier(public).verify(model, bundle)


def test_a_signer_knows_its_bundles(pair: tuple[Signer, Path], tmp_path: Path) -> None:
    """A bundle names its key: a stranger's, or nonsense, is told from one's own without hashing a model."""
    signer, _ = pair
    model = model_folder(tmp_path / "model")
    assert signer.has_signed(signer.sign(model))
    assert not signer.has_signed(KeyPairSigner(tmp_path / "theirs").sign(model))
    assert not signer.has_signed(b"nonsense")


def test_another_key_does_not_verify(pair: tuple[Signer, Path], tmp_path: Path) -> None:
    """The public half of another key refuses the version, and says by which key it is signed."""
    signer, _ = pair
    model = model_folder(tmp_path / "model")
    bundle = signer.sign(model)
    KeyPairSigner(tmp_path / "theirs")
    with pytest.raises(ArtifactRefused, match="signed with another key"):
        PublicKeyVerifier(tmp_path / "theirs" / PUBLIC).verify(model, bundle)


@pytest.mark.parametrize("spec", ["ECC_NIST_P384", "RSA_2048"])
def test_only_keys_on_p256_sign(spec: Spec, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a worker's verifier does not take is refused before anything is signed."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    key, _ = new_signing_key(endpoint, spec)
    with pytest.raises(ArtifactRefused, match="P-256"):
        KmsSigner(f"{SCHEME}{key}")


def test_a_kms_that_cannot_sign_is_explained(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is refused; a KMS that does not answer is unavailable."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", endpoint)
    with pytest.raises(ArtifactRefused, match="NotFoundException"):
        KmsSigner(f"{SCHEME}alias/nobody")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        KmsSigner(f"{SCHEME}alias/nobody")
    with pytest.raises(ArtifactRefused, match=f"write {kms.SCHEME}"):
        KmsSigner("alias/nobody")
