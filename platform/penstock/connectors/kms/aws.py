"""Wraps tenants' keys with a symmetric key in AWS KMS; requests never wait for it, but the first of a tenant does."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from penstock.domain.errors import StoreUnavailable
from penstock.sealing.keys import Context, KeyEncryption, Wrapped
from penstock.sealing.local import PREFIX as LOCAL
from penstock.sealing.segments import Unreadable

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

SCHEME = "awskms:///"
THREADS = 4
"""Calls at once: a hanging KMS holds no thread of others."""
_FOREIGN = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})
T = TypeVar("T")


class AwsEncryption:
    """The key at ``awskms:///alias/NAME``, an id or an ARN; keys that ``local`` wrapped are still unwrapped by it."""

    def __init__(self, address: str, local: KeyEncryption) -> None:
        self._address, self._local = address, local
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kms")
        config = Config(retries={"mode": "standard", "max_attempts": 2}, connect_timeout=2, read_timeout=5)
        self._client: KMSClient = boto3.client("kms", config=config)

    async def current(self) -> str:
        """Return the key's ARN, since an alias can change."""
        answer = await self._ask(lambda: self._client.describe_key(KeyId=_key(self._address)))
        return SCHEME + answer["KeyMetadata"]["Arn"]

    async def wrap(self, secret: bytes, context: Context) -> Wrapped:
        answer = await self._ask(
            lambda: self._client.encrypt(
                KeyId=_key(self._address), Plaintext=secret, EncryptionContext=context._asdict()
            )
        )
        return Wrapped(SCHEME + answer["KeyId"], answer["CiphertextBlob"])

    async def unwrap(self, wrapped: Wrapped, context: Context) -> bytes:
        if wrapped.by.startswith(LOCAL):
            return await self._local.unwrap(wrapped, context)
        answer = await self._ask(
            lambda: self._client.decrypt(
                KeyId=_key(wrapped.by), CiphertextBlob=wrapped.secret, EncryptionContext=context._asdict()
            )
        )
        return answer["Plaintext"]

    async def _ask(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, act)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _FOREIGN:
                raise Unreadable from error
            raise StoreUnavailable(f"KMS refuses the key of stored data: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable("KMS can't be reached for the key of stored data") from error


def _key(address: str) -> str:
    return address.removeprefix(SCHEME)
