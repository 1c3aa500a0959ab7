"""The format in which `cosign attest` signs a bill beside an image, as policy-controller reads it.

cosign can't be had here. So a reader of the published rules is held to an attestation that cosign wrote, signed by a
key in a KMS, and then reads one of our own bill:
https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md
https://github.com/sigstore/cosign/blob/v3.0.2/specs/ATTESTATION_SPEC.md
"""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from penstock.audit.segments import covered
from scripts.bills import bill_of
from tests.support import tree

PUBLISHED = json.loads(Path(__file__).with_name("published_attestation.json").read_text())
STATEMENT, IN_TOTO = "https://in-toto.io/Statement/v0.1", "application/vnd.in-toto+json"
DIGEST = "ab" * 32


def read(envelope: dict[str, Any], key: ec.EllipticCurvePublicKey, digest: str, kind: str) -> Any:  # noqa: ANN401  JSON
    """Return the predicate; raise ``InvalidSignature``, or ``ValueError`` if it is about something else."""
    body = base64.b64decode(envelope["payload"])
    (signature,) = envelope["signatures"]
    key.verify(
        base64.b64decode(signature["sig"]), covered(body, envelope["payloadType"].encode()), ec.ECDSA(hashes.SHA256())
    )
    told = json.loads(body)
    found = envelope["payloadType"], told["_type"], told["predicateType"], told["subject"][0]["digest"]
    if found != (IN_TOTO, STATEMENT, kind, {"sha256": digest}):
        raise ValueError(found)
    return told["predicate"]


def published_key() -> ec.EllipticCurvePublicKey:
    key = load_pem_public_key(PUBLISHED["key"].encode())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def test_what_is_signed_is_the_protocols_own_example() -> None:
    """The encoding, by which we also sign versions in KMS, is the one of the protocol's test vector."""
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert covered(b"hello world", b"http://example.com/HelloWorld") == expected


def test_an_attestation_that_cosign_wrote_is_read() -> None:
    """Of the key, the image and the type that its author published."""
    found = read(PUBLISHED["envelope"], published_key(), PUBLISHED["digest"], PUBLISHED["predicate_type"])
    assert json.loads(found["Data"])["foo"] == "bar"


def of_another_image(envelope: dict[str, Any]) -> dict[str, Any]:
    body = base64.b64decode(envelope["payload"]).replace(PUBLISHED["digest"].encode(), DIGEST.encode())
    return {**envelope, "payload": base64.b64encode(body).decode()}


@pytest.mark.parametrize(
    "spoil", [of_another_image, lambda one: {**one, "payloadType": "text/plain"}], ids=["image", "type"]
)
def test_an_altered_attestation_is_refused(spoil: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Payload and type are both signed."""
    with pytest.raises(InvalidSignature):
        read(spoil(PUBLISHED["envelope"]), published_key(), PUBLISHED["digest"], PUBLISHED["predicate_type"])


def test_our_bill_is_read_as_one_of_its_image(tmp_path: Path) -> None:
    """In an envelope of the same fields, of the type that the cluster's policy asks for; of no other image or key."""
    (tmp_path / "penstock-1.whl").write_bytes(b"a wheel")
    base = f"docker.io/library/python@sha256:{DIGEST}"
    bill = json.loads(bill_of("gateway", base, [f"six==1.17.0 --hash=sha256:{DIGEST}"], tmp_path / "penstock-1.whl"))
    policy = (tree.ROOT / "infra/kube/images.py").read_text()
    (kind,) = re.findall(r'^BILL = "(.*)"$', policy, re.MULTILINE)
    subject = [{"name": "registry.example/penstock/gateway", "digest": {"sha256": DIGEST}}]
    body = json.dumps({"_type": STATEMENT, "predicateType": kind, "subject": subject, "predicate": bill}).encode()
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    sign = base64.b64encode(key.sign(covered(body, IN_TOTO.encode()), ec.ECDSA(hashes.SHA256()))).decode()
    payload = base64.b64encode(body).decode()
    envelope = {"payloadType": IN_TOTO, "payload": payload, "signatures": [{"keyid": "", "sig": sign}]}
    assert [set(one) for one in (envelope, *envelope["signatures"])] == [
        set(one) for one in (PUBLISHED["envelope"], *PUBLISHED["envelope"]["signatures"])
    ]
    assert read(envelope, key.public_key(), DIGEST, kind)["bomFormat"] == "CycloneDX"
    for digest, asked in (("cd" * 32, kind), (DIGEST, PUBLISHED["predicate_type"])):
        with pytest.raises(ValueError, match="sha256"):
            read(envelope, key.public_key(), digest, asked)
    with pytest.raises(InvalidSignature):
        read(envelope, other.public_key(), DIGEST, kind)
