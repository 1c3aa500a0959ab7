"""A version's bill of materials: valid CycloneDX, with every file of the version, and never missing in a store."""

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from penstock.connectors.folder.store import FolderStore
from penstock.domain.errors import StoreUnavailable
from penstock.domain.models.model import AdapterSettings, Manifest, Provenance, digest_of
from penstock.packaging.bill import bill_of
from penstock.packaging.packing import describe, measure
from tests.support.models.versions import CHOICES, home_with_model, model_folder, sha256


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    folder = model_folder(tmp_path / "model")
    return describe(folder, measure(folder), CHOICES)


def faults(bill: bytes) -> object:
    """Return the first fault by the schema that CycloneDX publishes."""
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.decode())


@pytest.mark.parametrize("licence", ["Apache-2.0", "Llama 3.1 Community License", "für alle"])
def test_a_bill_is_valid_by_the_published_schema(manifest: Manifest, licence: str) -> None:
    """A model's and an adapter's bill keep to CycloneDX 1.6, whatever the licence's name and origin are."""
    told = replace(manifest, provenance=Provenance(origin="a folder of mine", licence=licence))
    assert faults(bill_of(told, digest_of(told))) is None
    adapted = replace(told, adapter=AdapterSettings(base=sha256(b"base"), rank=8))
    bill = bill_of(adapted, digest_of(adapted))
    assert faults(bill) is None
    assert sha256(b"base").encode() in bill


def test_the_schema_refuses_another_document(manifest: Manifest) -> None:
    """A bill without its format's name, or with an unknown field, does not pass."""
    bill = json.loads(bill_of(manifest, digest_of(manifest)))
    assert faults(json.dumps({**bill, "bomFormat": "other"}).encode()) is not None
    assert faults(json.dumps({**bill, "unknown": 1}).encode()) is not None


def test_a_bill_lists_every_file_with_its_digest(manifest: Manifest) -> None:
    """Files and digests are the manifest's, in the bill of the same version on any day."""
    digest = digest_of(manifest)
    bill = json.loads(bill_of(manifest, digest))
    listed = {one["name"]: one["hashes"][0]["content"] for one in bill["components"]}
    assert listed == {file.path: file.sha256 for file in manifest.files}
    assert bill["metadata"]["component"]["hashes"][0]["content"] == digest
    assert bill_of(manifest, digest) == bill_of(manifest, digest)


def test_a_push_stores_the_bill_and_mends_a_lost_one(tmp_path: Path) -> None:
    """Each pushed version has a bill; a store that lost or altered it gets it back with the next push."""
    home, packed = home_with_model(tmp_path)
    assert home.store.bill(packed.digest) == bill_of(packed.manifest, packed.digest)
    home.store.put_bill(packed.digest, b"altered")
    home.publish(tmp_path / "model")
    assert home.store.bill(packed.digest) == bill_of(packed.manifest, packed.digest)


def test_a_version_without_a_bill_gets_no_signature(tmp_path: Path) -> None:
    """A push that can't write the bill ends before the signature, so that no worker ever loads the version."""
    full = mock.patch.object(FolderStore, "put_bill", side_effect=StoreUnavailable("full"))
    with full, pytest.raises(StoreUnavailable, match="full"):
        home_with_model(tmp_path)
    assert not (tmp_path / "artifacts/signatures").exists()
