"""Signatures of Standard Webhooks 1.0.0: HMAC-SHA256 over ``id.timestamp.body`` under each secret in force."""

import base64
import hashlib
import hmac
from collections.abc import Sequence

import msgspec

from penstock.domain.jobs.webhook import Event, data_of


def body_of(event: Event) -> bytes:
    return msgspec.json.encode(
        {
            "id": event.id,
            "object": "event",
            "type": event.type,
            "created_at": int(event.created_at),
            "data": data_of(event),
        }
    )


def signature(secret: bytes, message: str, at: int, body: bytes) -> str:
    signed = f"{message}.{at}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def headers_of(message: str, at: float, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    """Return the headers of an attempt at ``at`` (Unix seconds); ``message`` is the same in each attempt."""
    second = int(at)
    return {
        "content-type": "application/json",
        "webhook-id": message,
        "webhook-timestamp": str(second),
        "webhook-signature": " ".join(signature(secret, message, second, body) for secret in secrets),
    }
