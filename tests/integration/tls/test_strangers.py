"""Clients at a gate with other credentials than a gateway's: each is turned away, and the log says why (finding
3.15).
"""

import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.tls.identity import Role
from tests.support.tls.certificates import Issuer
from tests.support.tls.processes import Site, anybody, attacker, get, site

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway and a gate that know each other."""
    with site(tmp_path_factory.mktemp("tls")) as found:
        yield found


def test_a_chat_streams_between_two_that_know_each_other(running: Site) -> None:
    """Finding 3.15: the gateway's request goes to the gate over TLS, and a stream comes back token by token."""
    assert running.answers(3) == "t0 t1 t2 "
    assert "peer_refused" not in running.gate.log


@pytest.mark.parametrize("role", [Role.CONTROLLER, Role.OPERATOR])
def test_a_wrong_role_is_told_so(running: Site, role: Role) -> None:
    """A valid certificate of another role gets a 403 in words, whatever it asks for."""
    context = attacker(running.issuer, f"a-{role}", running.issuer.issued(role))
    answer = get(f"{running.gate.url}/penstock/load", context)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "wrong_role"
    assert f"spiffe://penstock/{role} may not call a worker here; gateway, runner may" in answer.text
    running.gate.until_said(f"spiffe://penstock/{role} may not call")


def test_another_worker_may_not_call_a_gate(running: Site) -> None:
    """A worker may call its own gate, from the address that it calls, and no other one's."""
    context = attacker(running.issuer, "w-other", running.issuer.issued(Role.WORKER))
    url = f"{running.gate.url}/penstock/load"
    assert get(url, context).status_code == 200
    other = httpx.HTTPTransport(verify=context, local_address="127.0.0.2")
    with httpx.Client(transport=other, trust_env=False) as elsewhere:
        answer = elsewhere.get(url)
    assert answer.status_code == 403
    assert "spiffe://penstock/worker may not call a worker here" in answer.text


def test_another_trust_domain_is_a_stranger(running: Site) -> None:
    """One authority may serve several platforms: a gateway of another one gets a 403."""
    pair = running.issuer.issued(Role.GATEWAY, domain="elsewhere")
    answer = get(f"{running.gate.url}/penstock/load", attacker(running.issuer, "elsewhere", pair))
    assert answer.status_code == 403
    assert "is of another trust domain than penstock" in answer.text


@pytest.mark.parametrize(
    ("who", "alert", "logged"),
    [
        ("expired", "ALERT_CERTIFICATE_EXPIRED", "its certificate has expired: have it renewed"),
        (
            "other authority",
            "ALERT_UNKNOWN_CA",
            "its certificate is of an authority that is not trusted here",
        ),
        ("self-signed", "ALERT_UNKNOWN_CA", "its certificate is of no authority: self-signed"),
        ("none", "ALERT_CERTIFICATE_REQUIRED", "it shows no certificate: give it one"),
    ],
)
def test_a_certificate_that_proves_nothing_ends_in_the_handshake(
    running: Site, tmp_path: Path, who: str, alert: str, logged: str
) -> None:
    """A client without a valid certificate of this authority says no word; both ends learn why."""
    stranger = Issuer(tmp_path, "a stranger")
    before = running.gate.log.count(logged)
    context = {
        "expired": lambda: attacker(running.issuer, "x-expired", running.issuer.expired(Role.GATEWAY)),
        "other authority": lambda: attacker(stranger, "other", stranger.issued(Role.GATEWAY)),
        "self-signed": lambda: attacker(stranger, "self", stranger.pair),
        "none": anybody,
    }[who]()
    with pytest.raises((httpx.ReadError, httpx.ConnectError, httpx.WriteError), match=alert.replace("_", ".")):
        get(f"{running.gate.url}/penstock/load", context)
    running.gate.until_said(logged, before + 1)


def test_an_older_tls_is_refused(running: Site) -> None:
    """TLS 1.2 with the right certificate gets nowhere: 1.3 is the only version."""
    context = attacker(running.issuer, "old")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.ConnectError, match=r"PROTOCOL.VERSION"):
        get(f"{running.gate.url}/penstock/load", context)
    running.gate.until_said("it speaks an older TLS than 1.3")


def test_plain_http_gets_nothing(running: Site) -> None:
    """A request in the clear is answered by no byte of HTTP, and the log says what was wrong with it."""
    with socket.create_connection(("127.0.0.1", running.gate.port), timeout=5) as plain:
        plain.sendall(b"GET /penstock/load HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"HTTP" not in plain.recv(4096)
    running.gate.until_said("it speaks plain HTTP")


def test_openssl_sees_what_a_gate_shows(running: Site) -> None:
    """OpenSSL's own client: TLS 1.3, no session to resume, and the worker's identity as a URI of its certificate."""
    files = running.issuer.mounted(Role.GATEWAY, at="openssl")
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{running.gate.port}", "-noservername", "-ign_eof"]
    command += ["-verify_return_error", "-CAfile", str(files.authorities)]
    command += ["-cert", str(files.certificate), "-key", str(files.key)]
    asked = "GET /penstock/load HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    shown = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=20, check=True).stdout
    assert "TLSv1.3" in shown
    assert "HTTP/1.1 200" in shown
    assert "Verify return code: 0 (ok)" in shown
    assert "Session Ticket" not in shown
    told = subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName,extendedKeyUsage"],
                          input=shown, capture_output=True, text=True, timeout=20, check=True).stdout  # fmt: skip
    assert "URI:spiffe://penstock/worker" in told
    assert "TLS Web Server Authentication, TLS Web Client Authentication" in told
