"""The signed pass that a request carries from gateway to worker.

The worker trusts nothing else: identity, standing and deadline are the gateway's word under the platform's key,
so nothing gets round the edge (A4, B2). Compact on purpose: it is made and checked once per request.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.standing import Standing

HEADER = "x-penstock-ticket"
MAX_SKEW_S = 90.0
"""How far the clocks of gateway and worker may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What the gateway vouches for. ``deadline_at`` is Unix seconds; tokens are those of all prompts and sequences.

    ``work_tokens``: what the request makes the CPU do beside reading its prompt, as prompt tokens.
    """

    request: RequestId
    tenant: TenantId
    standing: Standing
    weight: int
    deadline_at: float
    prompt_tokens: int
    expected_output_tokens: int
    reserved: float = 0.0
    """The part of the engine that is kept for the tenant."""
    prompts: int = 1
    sequences: int = 1
    work_tokens: int = 0


def seal(ticket: Ticket, key: bytes) -> str:
    """Return the header value: fields and their HMAC-SHA-256, base64."""
    fields = "\x1f".join(
        (
            ticket.request,
            ticket.tenant,
            str(ticket.standing.value),
            str(ticket.weight),
            f"{ticket.deadline_at:.3f}",
            str(ticket.prompt_tokens),
            str(ticket.expected_output_tokens),
            str(ticket.reserved),
            str(ticket.prompts),
            str(ticket.sequences),
            str(ticket.work_tokens),
        )
    ).encode()
    return urlsafe_b64encode(hmac.digest(key, fields, hashlib.sha256) + fields).decode()


def unseal(value: str, key: bytes, now: float) -> Ticket:
    """Return the ticket, or raise ``Unauthenticated`` where it is forged, damaged or long past its deadline."""
    try:
        raw = urlsafe_b64decode(value.encode())
        mac, fields = raw[:32], raw[32:]
    except ValueError as error:
        raise Unauthenticated("the internal ticket is damaged") from error
    if not hmac.compare_digest(mac, hmac.digest(key, fields, hashlib.sha256)):
        raise Unauthenticated("the internal ticket is not signed by this platform")
    request, tenant, standing, weight, deadline_at, *rest = fields.decode().split("\x1f")
    prompt, output, reserved, prompts, sequences, work = rest
    ticket = Ticket(
        request=RequestId(request),
        tenant=TenantId(tenant),
        standing=Standing(int(standing)),
        weight=int(weight),
        deadline_at=float(deadline_at),
        prompt_tokens=int(prompt),
        expected_output_tokens=int(output),
        reserved=float(reserved),
        prompts=int(prompts),
        sequences=int(sequences),
        work_tokens=int(work),
    )
    if now > ticket.deadline_at + MAX_SKEW_S:
        raise Unauthenticated("the internal ticket is past its deadline")
    return ticket
