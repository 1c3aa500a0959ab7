"""Webhook endpoints and their deliveries in the API document."""

from penstock.domain.jobs.webhook import ALL_EVENTS, DeliveryState
from penstock.gateway.app.openapi_parts import Json, in_path, operation, page_of, parameter, ref
from penstock.gateway.app.queries import known_at
from penstock.gateway.deferred.webhooks import MOST_OVERLAP_S, OVERLAP_S, TYPES, WEBHOOKS

_SECOND: Json = {"type": ["integer", "null"], "description": "Unix seconds."}
_TEXT: Json = {"type": ["string", "null"]}
_EVENTS: Json = {"type": "array", "items": {"enum": [*sorted(TYPES), ALL_EVENTS]}}
_URL: Json = {"type": "string", "format": "uri", "description": "https:// on port 443 of a public address."}
_NEW: Json = {
    "type": "object",
    "required": ["url"],
    "additionalProperties": False,
    "properties": {"url": _URL, "events": _EVENTS},
}
_CHANGE: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "url": {**_URL, "type": ["string", "null"]},
        "events": {**_EVENTS, "type": ["array", "null"]},
        "enabled": {"type": ["boolean", "null"]},
    },
}
_OVERLAP: Json = {"type": "number", "minimum": 0, "maximum": MOST_OVERLAP_S, "default": OVERLAP_S}
_ROTATION: Json = {"type": "object", "additionalProperties": False, "properties": {"overlap_s": _OVERLAP}}
_SINCE: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"since": {"type": "number", "description": "Unix seconds: only failed ones since then."}},
}
_FIELDS: Json = {
    "id": {"type": "string"},
    "object": {"const": "webhook"},
    "url": {"type": "string"},
    "events": _EVENTS,
    "enabled": {"type": "boolean"},
    "disabled_reason": _TEXT,
    "failing_since": _SECOND,
    "former_secret_until": _SECOND,
    "created_at": {"type": "integer"},
}
_SECRET: Json = {"type": "string", "description": "Shown in this answer alone."}
_DELIVERY: Json = {
    "id": {"type": "string"},
    "object": {"const": "webhook.delivery"},
    "webhook": {"type": "string"},
    "event": {"type": "object"},
    "state": {"enum": list(DeliveryState)},
    "attempts": {"type": "integer"},
    "next_attempt_at": _SECOND,
    "last_status": {"type": ["integer", "null"]},
    "last_error": _TEXT,
    "ended_at": _SECOND,
}
_REPLAY: Json = {
    "type": "object",
    "required": ["object", "webhook", "deliveries"],
    "properties": {
        "object": {"const": "webhook.replay"},
        "webhook": {"type": "string"},
        "deliveries": {"type": "integer"},
    },
}
_SENT, _ONE = {408, 413}, f"{WEBHOOKS}/{{webhook}}"


def _optional(body: Json) -> Json:
    return {"required": False, "content": {"application/json": {"schema": body}}}


def paths() -> Json:
    named = in_path("webhook")
    listed = f"{_ONE}/deliveries"
    queries = [parameter(name, {"type": "string"}, "query") for name in sorted(known_at(listed, is_anthropics=False))]
    made = operation("Add a receiver of events.", ref("NewWebhook"), status=201, body=_NEW, more={409, *_SENT})
    rotated = operation("Exchange the signing secret.", ref("NewWebhook"), more={404, *_SENT})
    replayed = operation("Send failed deliveries again.", _REPLAY, status=202, more={404, 409, *_SENT})
    return {
        WEBHOOKS: {"post": made, "get": operation("List webhooks, newest first.", page_of("Webhook"))},
        _ONE: {
            "get": {**operation("Show a webhook.", ref("Webhook"), more={404}), "parameters": named},
            "post": {
                **operation("Change a webhook.", ref("Webhook"), body=_CHANGE, more={404, 409, *_SENT}),
                "parameters": named,
            },
            "delete": {**operation("Delete a webhook.", ref("Deleted"), more={404}), "parameters": named},
        },
        f"{_ONE}/rotate": {"post": {**rotated, "parameters": named, "requestBody": _optional(_ROTATION)}},
        f"{_ONE}/test": {
            "post": {
                **operation("Send a test event.", ref("Webhook"), status=202, more={404, 409}),
                "parameters": named,
            }
        },
        f"{_ONE}/replay": {"post": {**replayed, "parameters": named, "requestBody": _optional(_SINCE)}},
        listed: {
            "get": {
                **operation("List deliveries, newest first.", page_of("WebhookDelivery"), more={404}),
                "parameters": [*named, *queries],
            }
        },
        f"{listed}/{{delivery}}/replay": {
            "post": {
                **operation("Send an ended delivery again.", _REPLAY, status=202, more={404, 409}),
                "parameters": in_path("webhook", "delivery"),
            }
        },
    }


def schemas() -> Json:
    new = {**_FIELDS, "secret": _SECRET}
    return {
        "Webhook": {"type": "object", "required": [*_FIELDS], "properties": _FIELDS},
        "NewWebhook": {"type": "object", "required": [*new], "properties": new},
        "WebhookDelivery": {"type": "object", "required": [*_DELIVERY], "properties": _DELIVERY},
    }
