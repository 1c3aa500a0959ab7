"""S3 and KMS over HTTP (moto)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Literal
from unittest import mock

import boto3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from moto.kms.responses import KmsResponse
from moto.kms.utils import ECDSAPrivateKey
from moto.server import ThreadedMotoServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
_buckets = count(1)
Spec = Literal["ECC_NIST_P256", "ECC_NIST_P384", "RSA_2048"]


@contextmanager
def s3_server() -> Iterator[str]:
    """Run the server and yield its address; credentials are in the environment meanwhile."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with mock.patch.dict(os.environ, CREDENTIALS), mock.patch.object(KmsResponse, "sign", _sign):
        server.start()
        host, port = server.get_host_and_port()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.stop()


_moto_sign = KmsResponse.sign


def _sign(response: KmsResponse) -> str:
    """Sign as KMS does if the message is a digest, which moto takes for the message itself."""
    if response._get_param("MessageType") != "DIGEST":
        return str(_moto_sign(response))

    def prehashed(key: ECDSAPrivateKey, message: bytes, signing_algorithm: str) -> bytes:
        assert signing_algorithm == "ECDSA_SHA_256"
        return bytes(key.private_key.sign(message, ec.ECDSA(Prehashed(hashes.SHA256()))))

    with mock.patch.object(ECDSAPrivateKey, "sign", prehashed):
        return str(_moto_sign(response))


def new_bucket(endpoint: str) -> str:
    """Make an empty bucket and return its name."""
    name = f"artifacts-{next(_buckets)}"
    boto3.client("s3", endpoint_url=endpoint).create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return name


def new_signing_key(endpoint: str, spec: Spec = "ECC_NIST_P256", alias: str = "") -> tuple[str, bytes]:
    """Make a key in KMS that signs, under an alias if one is given; return its id and its public half in DER."""
    kms = boto3.client("kms", endpoint_url=endpoint)
    found = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec=spec)["KeyMetadata"]["KeyId"]
    if alias:
        kms.create_alias(AliasName=alias, TargetKeyId=found)
    return found, kms.get_public_key(KeyId=found)["PublicKey"]
