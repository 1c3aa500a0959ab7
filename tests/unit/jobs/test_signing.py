"""Signatures, checked by verifiers that others wrote: the official SDK and Standard Webhooks' own library."""

import json
from datetime import UTC, datetime

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from openai.types.webhooks import BatchCompletedWebhookEvent
from standardwebhooks import Webhook, WebhookVerificationError

from penstock.domain.jobs.ids import EventId
from penstock.domain.jobs.webhook import Event, EventType, secret_text
from penstock.jobs.signing import body_of, headers_of

SECRET, FORMER = b"s" * 32, b"f" * 32
EVENT = Event(id=EventId("evt_1"), type=EventType.BATCH_COMPLETED, object="batch_1", created_at=1764280000.7)


def now() -> float:
    return datetime.now(UTC).timestamp()


def sent(*secrets: bytes, ago_s: float = 0.0) -> tuple[str, dict[str, str]]:
    body = body_of(EVENT)
    return body.decode(), headers_of(EVENT.id, now() - ago_s, body, secrets)


@pytest.mark.parametrize("known", [SECRET, FORMER])
def test_the_official_sdk_accepts_either_secret_of_a_rotation(known: bytes) -> None:
    """With two signatures a receiver may know the old or the new secret."""
    body, headers = sent(SECRET, FORMER)
    client = OpenAI(api_key="none", webhook_secret=secret_text(known))
    event = client.webhooks.unwrap(body, headers)
    assert isinstance(event, BatchCompletedWebhookEvent)
    assert (event.id, event.data.id) == ("evt_1", "batch_1")
    assert Webhook(secret_text(known)).verify(body, headers) == json.loads(body)


@pytest.mark.parametrize(
    ("change", "headers"),
    [("x", {}), ("", {"webhook-id": "evt_2"}), ("", {"webhook-timestamp": str(int(now()) - 301)})],
)
def test_a_changed_event_fails(change: str, headers: dict[str, str]) -> None:
    """Another body, id or time than the signed ones is refused by both verifiers."""
    body, signed = sent(SECRET)
    with pytest.raises(InvalidWebhookSignatureError):
        OpenAI(api_key="none", webhook_secret=secret_text(SECRET)).webhooks.unwrap(body + change, signed | headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret_text(SECRET)).verify(body + change, signed | headers)


def test_an_old_attempt_is_refused() -> None:
    """A recorded request that is sent again after five minutes fails, though its signature is right."""
    body, headers = sent(SECRET, ago_s=301)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret_text(SECRET)).verify(body, headers)


def test_bodies_are_thin() -> None:
    """A body has the event, its time and an id, as OpenAI's have."""
    assert json.loads(body_of(EVENT)) == {
        "id": "evt_1",
        "object": "event",
        "type": "batch.completed",
        "created_at": 1764280000,
        "data": {"id": "batch_1"},
    }


def test_a_budgets_threshold_is_told_in_fields() -> None:
    """The budget, its window and the percentage are read from the alarm's name."""
    event = Event(
        id=EventId("evt_2"),
        type=EventType.BUDGET_THRESHOLD,
        object="tenant:shop:spend:2026-11/5000000@80",
        created_at=1.0,
    )
    assert json.loads(body_of(event))["data"] == {
        "id": "tenant:shop:spend:2026-11/5000000@80",
        "scope": "tenant:shop",
        "window": "2026-11",
        "cap_micro_usd": 5_000_000,
        "percent": 80,
    }
