"""The fields of a request's head: path, credential, ids, deadline. Each is accepted unchanged or refused. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from penstock.domain.errors import BadRequest, InvalidField
from penstock.domain.money import FREE, MICRO_PER_USD, MicroUsd
from penstock.domain.serving.auto import NAME as RULE
from penstock.domain.tenancy.credentials import NOBODY, Claim

MAX_DEADLINE_S = 3600.0
DEADLINE, PRICE_CAP, SESSION = "x-penstock-deadline-ms", "x-penstock-price-cap", "x-penstock-session"
SINGLE = frozenset(
    b"""
    authorization x-api-key idempotency-key
    x-penstock-auto x-penstock-deadline-ms x-penstock-price-cap x-penstock-session
    """.split()
)
"""Headers that would be ambiguous if repeated."""

ANTHROPIC_VERSION = b"anthropic-version"
ANTHROPIC_VERSIONS = frozenset({b"2023-01-01", b"2023-06-01", b"2026-10-21"})
"""The versions of Anthropic's API (its documentation and SDK, 2026-11); the answers are those of the last one."""
_DATE = re.compile(rb"20[0-9]{2}-[01][0-9]-[0-3][0-9]")
ANTHROPIC_ID = b"request-id"
"""The header in which Anthropic's SDKs read a request's id."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_PRINTABLE = re.compile(rb"[\x21-\x7e]{1,255}")
_MAX_DIGITS = 9
MAX_SESSION_CHARS = 256
_SESSION = re.compile(rb"[\x20-\x7e]{1,%d}" % MAX_SESSION_CHARS)

_PRICE = re.compile(rb"[0-9]{1,6}(?:\.[0-9]{1,6})?")

HeaderMap = Mapping[bytes, bytes]


def request_id(headers: HeaderMap, unique: str) -> str:
    """The caller's id with ``unique`` appended, or ``unique`` alone: aborting one request must not abort another
    caller's.
    """
    given = headers.get(b"x-request-id")
    return f"{given.decode()}-{unique}" if given and _REQUEST_ID.fullmatch(given) else f"req-{unique}"


def traceparent(headers: HeaderMap) -> str:
    given = headers.get(b"traceparent")
    return given.decode() if given and _TRACEPARENT.fullmatch(given) else ""


def deadline_s(headers: HeaderMap) -> float:
    """Return ``x-penstock-deadline-ms`` in seconds; 0 if absent."""
    given = headers.get(DEADLINE.encode())
    if given is None:
        return 0.0
    seconds = int(given) / 1000 if given.isdigit() and len(given) <= _MAX_DIGITS else 0.0
    if not 0 < seconds <= MAX_DEADLINE_S:
        most = int(MAX_DEADLINE_S * 1000)
        raise InvalidField(
            f"x-penstock-deadline-ms must be whole milliseconds from 1 to {most}", param="x-penstock-deadline-ms"
        )
    return seconds


def later_version(headers: HeaderMap) -> tuple[str, ...]:
    """SDKs get newer versions before gateways do. Raises ``InvalidField`` for any other unknown version."""
    given, newest = headers.get(ANTHROPIC_VERSION), max(ANTHROPIC_VERSIONS)
    if given is None or given in ANTHROPIC_VERSIONS:
        return ()
    name = ANTHROPIC_VERSION.decode()
    if _DATE.fullmatch(given) and given > newest:
        return (f"{name}={given.decode()}",)
    raise InvalidField(f"{name} is a version that does not exist: send {newest.decode()}", param=name)


def idempotency_key(headers: HeaderMap) -> str:
    given = headers.get(b"idempotency-key")
    if given is None:
        return ""
    if not _PRINTABLE.fullmatch(given):
        raise BadRequest("Idempotency-Key must be 1 to 255 printable characters", param="idempotency-key")
    return given.decode()


def session(headers: HeaderMap) -> str:
    given = headers.get(SESSION.encode())
    if not given:
        return ""
    if not _SESSION.fullmatch(given):
        most = MAX_SESSION_CHARS
        raise InvalidField(
            f"x-penstock-session must be at most {most} printable ASCII characters", param="x-penstock-session"
        )
    return given.decode()


def price_cap(headers: HeaderMap) -> MicroUsd:
    """Dollars per million tokens; 0 if absent."""
    given = headers.get(PRICE_CAP.encode())
    if given is None:
        return FREE
    cap = round(float(given) * MICRO_PER_USD) if _PRICE.fullmatch(given) else 0
    if not cap:
        raise InvalidField(f"{PRICE_CAP} must be dollars for a million tokens, such as 0.40", param=PRICE_CAP)
    return MicroUsd(cap)


def kept_rule(headers: HeaderMap) -> str:
    given = headers.get(b"x-penstock-auto")
    name = given.decode("latin-1") if given else ""
    return name if name and RULE.fullmatch(name) else ""


def credential(headers: HeaderMap) -> str:
    """Read ``Authorization: Bearer`` or ``x-api-key``.

    Anthropic's SDK may send both: two different keys are refused.
    """
    given, plain = headers.get(b"authorization"), headers.get(b"x-api-key", b"")
    if given is None:
        return plain.decode("latin-1")
    scheme, _, token = given.partition(b" ")
    bearer = token.strip() if scheme.lower() == b"bearer" else b""
    if plain and bearer and plain != bearer:
        raise BadRequest("authorization and x-api-key hold different keys: send one", param="authorization")
    return bearer.decode("latin-1")


def claim(headers: HeaderMap, claimed: Callable[[str], Claim]) -> Claim:
    try:
        return claimed(credential(headers))
    except BadRequest:
        return NOBODY


def check_single(headers: Iterable[tuple[bytes, bytes]]) -> None:
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen and name in SINGLE:
            raise BadRequest(f"the header {name.decode()} was given more than once: send it once", param=name.decode())
        seen.add(name)


def path(raw: bytes) -> str:
    """Segments are decoded; an encoded slash stays ``%2F`` (RFC 3986, 2.2)."""
    text = raw.decode("ascii", "replace")
    return unquote(text.replace("%2f", "%252F").replace("%2F", "%252F")) if "%" in text else text
