"""The signed pass that a request carries from gateway to worker.

The worker trusts nothing else: identity, standing and deadline are signed with a key that only this worker and the
gateways share (A4, B2). A ticket is bound to path, body and worker, used once, and valid for the permitted clock skew.
It carries the time left instead of a moment: clocks may differ by ``MAX_SKEW_S``.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace

from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import NO_VERSION, RequestId, TenantId, VersionId
from penstock.domain.nonces import random_bytes
from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM

HEADER = "x-penstock-ticket"
MAX_SKEW_S = 90.0
"""The permitted difference of gateway's and worker's clocks, travel time included."""
GIVEN_UP_S = 0.1
"""Seconds before its deadline at which a worker gives up a request, so that its gateway still gets an answer."""
_MAC_BYTES, _BINDING_BYTES, _NONCE_BYTES = 32, 16, 9
_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Tokens are sums over all prompts and sequences. ``deadline_at`` is in Unix seconds of the clock of the process
    that holds the ticket. ``work_tokens``: CPU work beside reading the prompt, in prompt tokens.
    """

    request: RequestId
    tenant: TenantId
    standing: Standing
    weight: int
    deadline_at: float
    prompt_tokens: int
    expected_output_tokens: int
    reserved: float = 0.0
    """The part of the engine reserved for the tenant."""
    kv_part: float = 0.0
    """The most of the engine's KV cache that the tenant's requests may hold; 0 for no bound."""
    kv_waits: bool = True
    """Whether it waits beyond that part; False: it is refused at once, since its tenant accepts a degraded answer."""
    prompts: int = 1
    sequences: int = 1
    work_tokens: int = 0
    promise: TimedPromise = NO_PROMISE
    """The request's promise, by which its worker judges the slots of batch work."""
    yields: bool = False
    """Whether it stands still while interactive requests are about, as its tenant's plan says."""
    start_by: float = 0.0
    """Unix second until which the request may wait for the engine, on the clock of ``deadline_at``; 0: until its
    deadline.
    """
    adapter: VersionId = NO_VERSION
    """The adapter that answers the request; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """The seal is valid; its binding to the request and its single use are still to be checked."""

    ticket: Ticket
    binding: bytes
    """``binding_of`` the request that the ticket was made for."""
    nonce: bytes
    stale_at: float
    """Unix second from which the ticket is refused for its age."""


def of_platform(deadline_at: float) -> Ticket:
    return Ticket(
        request=RequestId("platform"),
        tenant=PLATFORM,
        standing=Standing.INTERACTIVE,
        weight=1,
        deadline_at=deadline_at,
        prompt_tokens=1,
        expected_output_tokens=1,
    )


def binding_of(path: str, body: bytes) -> bytes:
    digest = hashlib.blake2b(path.encode(), digest_size=_BINDING_BYTES)
    digest.update(b"\x00")
    digest.update(body)
    return digest.digest()


def seal(ticket: Ticket, key: bytes, binding: bytes, now: float) -> str:
    """Seal the ticket for one use: MAC, binding, nonce and fields, base64. ``now`` is Unix seconds."""
    nonce = random_bytes(_NONCE_BYTES)  # like the keys: one that can be repeated is none
    fields = _SEPARATOR.join(
        (
            ticket.request,
            ticket.tenant,
            str(ticket.standing.value),
            str(ticket.weight),
            f"{now:.3f}",
            f"{ticket.deadline_at - now:.3f}",
            str(ticket.prompt_tokens),
            str(ticket.expected_output_tokens),
            str(ticket.reserved),
            str(ticket.prompts),
            str(ticket.sequences),
            str(ticket.work_tokens),
            f"{ticket.start_by - now:.3f}" if ticket.start_by else "",
            *_further(ticket),
        )
    ).encode()
    sealed = binding + nonce + fields
    return urlsafe_b64encode(hmac.digest(key, sealed, hashlib.sha256) + sealed).decode()


def _further(ticket: Ticket) -> tuple[str, ...]:
    """Write the optional fields; an older worker reads those that it knows."""
    return (
        ticket.adapter,
        str(ticket.kv_part or ""),
        "" if ticket.kv_waits else "refused",
        ":".join(map(str, ticket.promise)) if any(ticket.promise) else "",
        "yields" if ticket.yields else "",
    )


def unseal(value: str, key: bytes, now: float) -> Presented:
    """``Unauthenticated`` if the ticket is forged, damaged, or older than the permitted clock skew."""
    try:
        raw = urlsafe_b64decode(value.encode())
    except ValueError as error:
        raise Unauthenticated("the internal ticket is damaged") from error
    mac, sealed = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, hmac.digest(key, sealed, hashlib.sha256)):
        raise Unauthenticated("the internal ticket is not signed for this worker")
    head = _BINDING_BYTES + _NONCE_BYTES
    issued_at, ticket = _fields(sealed[head:])
    if abs(now - issued_at) > MAX_SKEW_S:
        raise Unauthenticated("the internal ticket has expired, or the clocks differ by more than 90 s")
    return Presented(
        ticket=replace(
            ticket, deadline_at=now + ticket.deadline_at, start_by=ticket.start_by and now + ticket.start_by
        ),
        binding=sealed[:_BINDING_BYTES],
        nonce=sealed[_BINDING_BYTES:head],
        stale_at=issued_at + MAX_SKEW_S,
    )


def _fields(raw: bytes) -> tuple[float, Ticket]:
    request, tenant, standing, weight, issued_at, left_s, *rest = raw.decode().split(_SEPARATOR)
    prompt, output, reserved, prompts, sequences, work, start_in_s, *further = rest
    adapter, kv_part, refused, promise, yields = (*further, "", "", "", "", "")[:5]
    return float(issued_at), Ticket(
        request=RequestId(request),
        tenant=TenantId(tenant),
        standing=Standing(int(standing)),
        weight=int(weight),
        deadline_at=float(left_s),
        prompt_tokens=int(prompt),
        expected_output_tokens=int(output),
        reserved=float(reserved),
        prompts=int(prompts),
        sequences=int(sequences),
        work_tokens=int(work),
        start_by=float(start_in_s or 0.0),
        adapter=VersionId(adapter),
        kv_part=float(kv_part or 0.0),
        kv_waits=not refused,
        promise=TimedPromise(*map(float, promise.split(":"))) if promise else NO_PROMISE,
        yields=bool(yields),
    )
