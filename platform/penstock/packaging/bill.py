"""The bill of materials of a version, in CycloneDX 1.6: files with digests, licence, origin, base.

It says only what the signed manifest says, so it is the same on any machine and day, and needs no signature of its own.
https://cyclonedx.org/docs/1.6/json/
"""

import json
from uuid import NAMESPACE_URL, uuid5

from penstock.domain.models.model import Manifest, version_id

SPEC = "1.6"
TYPE = "machine-learning-model"


def bill_of(manifest: Manifest, digest: str) -> bytes:
    identity = version_id(manifest.name, digest)
    model: dict[str, object] = {
        "type": TYPE,
        "bom-ref": identity,
        "name": manifest.name,
        "version": identity.rpartition("@")[2],
        "hashes": _hashes(digest),
        "licenses": [{"license": {"name": manifest.provenance.licence}}],
        "modelCard": {"modelParameters": {"task": manifest.task}},
        "properties": [
            {"name": "penstock:origin", "value": manifest.provenance.origin},
            {"name": "penstock:source-sha256", "value": manifest.provenance.source_sha256},
        ],
    }
    if manifest.adapter is not None:
        base = {"type": TYPE, "name": manifest.adapter.base, "hashes": _hashes(manifest.adapter.base)}
        model["pedigree"] = {"ancestors": [base]}
    files = [
        {
            "type": "file",
            "bom-ref": f"{identity}/{file.path}",
            "name": file.path,
            "hashes": _hashes(file.sha256),
            "properties": [{"name": "penstock:size-bytes", "value": str(file.size_bytes)}],
        }
        for file in manifest.files
    ]
    bill = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, f'sha256:{digest}')}",
        "version": 1,
        "metadata": {"component": model},
        "components": files,
        "dependencies": [{"ref": identity, "dependsOn": [file["bom-ref"] for file in files]}],
    }
    return json.dumps(bill, indent=1, ensure_ascii=False).encode()


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]
