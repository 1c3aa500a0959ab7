"""Signs a version's folder with a key in AWS KMS, which the private half never leaves.

The signing library takes a key file alone, and its bundle is a DSSE envelope
(https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md) around the files' digests. So a key for one use
makes the envelope, and KMS's signature replaces the one in it.
"""

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.audit.segments import covered
from penstock.connectors.signing.keys import fingerprint_of, public_pem
from penstock.connectors.signing.openssf import KeyPairSigner, named_key
from penstock.domain.errors import ArtifactRefused, StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

SCHEME = "awskms:///"
"""Begins a key's address, as cosign writes it; behind it come an alias, an id or an ARN."""
_REFUSALS = frozenset({"NotFoundException", "InvalidKeyUsageException", "UnsupportedOperationException"})


class KmsKey:
    """ECDSA on P-256. Region and credentials come from boto3's own chain."""

    def __init__(self, address: str) -> None:
        self._address, self._key = address, address.removeprefix(SCHEME)
        if not address.startswith(SCHEME) or not self._key:
            raise ArtifactRefused(f"{address!r} names no key in KMS; write {SCHEME}alias/NAME")
        with self._explained():
            self._client: KMSClient = boto3.client(
                "kms",
                config=Config(
                    retries={"mode": "standard", "max_attempts": 4},
                    connect_timeout=5,
                    read_timeout=30,
                ),
            )
            found = self._client.get_public_key(KeyId=self._key)["PublicKey"]
        public = serialization.load_der_public_key(found)
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            raise ArtifactRefused(f"{address} is no key on the curve P-256 (ECC_NIST_P256), which signatures need")
        self.pem = public_pem(public)
        self.fingerprint = fingerprint_of(public)

    def sign(self, message: bytes) -> bytes:
        with self._explained():
            answer = self._client.sign(
                KeyId=self._key,
                Message=hashlib.sha256(message).digest(),
                MessageType="DIGEST",
                SigningAlgorithm="ECDSA_SHA_256",
            )
        return answer["Signature"]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _REFUSALS:
                raise ArtifactRefused(f"{self._address} can't sign: {code}") from error
            raise StoreUnavailable(f"KMS refused to use {self._address}: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"KMS can't be reached for {self._address}: {error}") from error


class KmsSigner:
    def __init__(self, address: str) -> None:
        self._key = KmsKey(address)

    def sign(self, folder: Path) -> bytes:
        with tempfile.TemporaryDirectory(prefix="penstock-envelope-") as once:
            bundle = json.loads(KeyPairSigner(Path(once)).sign(folder))
        envelope = bundle["dsseEnvelope"]
        signed = covered(base64.b64decode(envelope["payload"]), envelope["payloadType"].encode())
        envelope["signatures"][0]["sig"] = base64.b64encode(self._key.sign(signed)).decode()
        bundle["verificationMaterial"]["publicKey"]["hint"] = self._key.fingerprint
        return json.dumps(bundle).encode()

    def has_signed(self, bundle: bytes) -> bool:
        return named_key(bundle) == self._key.fingerprint
