"""Identity of a process: one SPIFFE URI among its certificate's alternative names; and the roles that may call a
listener.

``spiffe://<trust domain>/<role>`` or ``/<role>/<name>`` (https://spiffe.io/docs/latest/spiffe-specs/spiffe-id). Pure.
Trade-off: only the role is checked. Tickets and bearer tokens, which differ per worker, distinguish workers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_URI = re.compile(r"spiffe://([a-z0-9._-]{1,255})/([a-z-]{1,32})(?:/([A-Za-z0-9._@-]{1,253}))?")
FORM = "spiffe://<trust domain>/<role>"


class Role(StrEnum):
    """An operator is a person at the command line, KEDA the cluster's scaler."""

    GATEWAY = "gateway"
    CONTROLLER = "controller"
    RUNNER = "runner"
    WORKER = "worker"
    OPERATOR = "operator"
    KEDA = "keda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    trust_domain: str
    role: Role
    name: str = ""

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}/{self.role}{f'/{self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """``itself``: a role admitted from the same machine only."""

    roles: frozenset[Role]
    itself: Role | None = None
    by_path: tuple[tuple[str, frozenset[Role]], ...] = ()
    """Roles by path prefix, the first match; without one, all admitted roles."""

    def admit(self, role: Role, *, from_here: bool) -> bool:
        return role in self.roles or (role is self.itself and from_here)

    def may_ask(self, role: Role, path: str) -> bool:
        found = (roles for under, roles in self.by_path if path == under or path.startswith(f"{under}/"))
        return role in next(found, (role,))


GATE = Callers(roles=frozenset({Role.GATEWAY, Role.RUNNER}), itself=Role.WORKER)
"""Callers of a worker's gate: gateways, jobs runners, and the agent on the same machine."""
_EITHER = frozenset({Role.WORKER, Role.OPERATOR})
CONTROLLER_API = Callers(
    roles=_EITHER,
    by_path=(
        ("/internal", frozenset({Role.WORKER})),
        ("/healthz", _EITHER),
        ("/readyz", _EITHER),
        ("", frozenset({Role.OPERATOR})),
    ),
)
"""Callers of the controller: workers report; all else is for operators, so a stolen worker certificate gives no
access.
"""
SCALER_API = Callers(roles=frozenset({Role.KEDA}))
"""Callers of the controller's external scaler."""


def identity_of(uris: Iterable[str]) -> Identity:
    """Return the identity in a certificate's URIs; raises ``ValueError`` with the reason."""
    found = [uri for uri in uris if uri.startswith("spiffe:")]
    if len(found) != 1:
        raise ValueError(f"it names {len(found)} identities ({FORM}), and one is wanted")
    match = _URI.fullmatch(found[0])
    if match is None or match[2] not in set(Role):
        raise ValueError(f"{found[0]} is no identity of this platform: {FORM}, a role being {', '.join(Role)}")
    return Identity(trust_domain=match[1], role=Role(match[2]), name=match[3] or "")
