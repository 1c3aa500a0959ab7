"""Who a certificate names, and who may call whom."""

import pytest

from penstock.contract.written import PROCESSES
from penstock.tls.identity import CONTROLLER_API, GATE, SCALER_API, Callers, Identity, Role, identity_of


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("spiffe://penstock/gateway", Identity(trust_domain="penstock", role=Role.GATEWAY)),
        ("spiffe://eu.example/worker/w-1", Identity(trust_domain="eu.example", role=Role.WORKER, name="w-1")),
    ],
)
def test_one_uri_says_who_somebody_is(uri: str, expected: Identity) -> None:
    """Finding 3.15: identities are URIs of one form, and are written as they are read."""
    assert identity_of([uri, "https://elsewhere/"]) == expected
    assert str(expected) == uri


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://penstock/gateway"],
        ["spiffe://penstock/gateway", "spiffe://penstock/controller"],
        ["spiffe://penstock/root"],
        ["spiffe://penstock/gateway/../controller"],
        ["spiffe://penstock/gateway/a/b"],
        ["spiffe:///gateway"],
        ["spiffe://penstock/gateway?role=controller"],
        ["spiffe://penstock/GATEWAY"],
    ],
)
def test_what_is_no_identity_is_nobody(uris: list[str]) -> None:
    """None, two, another form or an unknown role: nobody comes in by it."""
    with pytest.raises(ValueError, match="identit"):
        identity_of(uris)


@pytest.mark.parametrize(
    ("callers", "role", "from_here", "expected"),
    [
        (GATE, Role.GATEWAY, False, True),
        (GATE, Role.WORKER, True, True),
        (GATE, Role.WORKER, False, False),
        (GATE, Role.CONTROLLER, True, False),
        (GATE, Role.OPERATOR, True, False),
        (CONTROLLER_API, Role.WORKER, False, True),
        (CONTROLLER_API, Role.OPERATOR, False, True),
        (CONTROLLER_API, Role.GATEWAY, True, False),
        (CONTROLLER_API, Role.CONTROLLER, True, False),
        (CONTROLLER_API, Role.KEDA, True, False),
        (SCALER_API, Role.KEDA, False, True),
        (SCALER_API, Role.OPERATOR, True, False),
        (SCALER_API, Role.WORKER, False, False),
    ],
)
def test_each_listener_has_its_callers(callers: Callers, role: Role, *, from_here: bool, expected: bool) -> None:
    """Gateways and runners call gates; workers, operators and KEDA the controller; a worker no gate but its own."""
    assert callers.admit(role, from_here=from_here) is expected


def test_the_contract_says_the_same() -> None:
    """Who may call whom stands once in words for whoever deploys, and once in the listener."""
    ports = {(process.name, port.name): port.callers for process in PROCESSES for port in process.ports}
    roles = {name: Role(name.removesuffix("s")) for name in ("gateway", "runner", "worker", "operators")}
    assert {roles[name] for name in ports["worker", "gate"]} == GATE.roles
    assert {roles[name] for name in ports["controller", "api"]} == CONTROLLER_API.roles
    assert {Role(one) for one in ports["controller", "scaler"]} == SCALER_API.roles
    outside = {Role.OPERATOR, Role.KEDA}
    assert {process.certificate.role for process in PROCESSES if process.certificate} == {*Role} - outside
