"""Certificates and authorities are exchanged while streams run; what can't be used leaves what was there."""

import itertools
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from penstock.tls.identity import Role
from tests.support.tls.certificates import Issuer, replace
from tests.support.tls.processes import Site, attacker, get, shown, site

pytestmark = pytest.mark.integration
WITHIN_S = 15.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway and a gate that know each other, and do so after each test."""
    with site(tmp_path_factory.mktemp("rotation")) as found:
        yield found


def test_a_certificate_is_exchanged_under_load(running: Site) -> None:
    """Finding 3.15: a stream goes on over the connection that it has, and new connections get the new certificate."""
    before, stream = shown(running.gate.port), running.stream(60)
    first = list(itertools.islice(stream, 3))
    for role in (Role.WORKER, Role.GATEWAY):
        running.issuer.mounted(role)
    until_shown(running, before)
    assert running.answers(2) == "t0 t1 "
    rest = list(stream)
    assert (len(first) + len(rest), rest[-1]) == (63, "data: [DONE]")
    assert "certificate_changed" in running.gate.log


@pytest.mark.parametrize("fault", ["expired", "another's key", "other authority", "open key", "half a file", "gone"])
def test_what_cant_be_used_leaves_what_was_there(running: Site, tmp_path: Path, fault: str) -> None:
    """A certificate that is swapped for a bad one changes nothing but the log; a good one is taken again."""
    before, files = shown(running.gate.port), running.issuer.files(Role.WORKER)
    told = running.gate.log.count("certificate_not_changed")
    other = Issuer(tmp_path / "other", "a stranger")
    spoil: dict[str, Callable[[], object]] = {
        "expired": lambda: running.issuer.mounted(Role.WORKER, running.issuer.expired(Role.WORKER)),
        "another's key": lambda: replace(files.key, running.issuer.issued(Role.WORKER).key),
        "other authority": lambda: running.issuer.mounted(Role.WORKER, other.issued(Role.WORKER)),
        "open key": lambda: replace(files.key, files.key.read_text(), 0o444),
        "half a file": lambda: replace(files.certificate, files.certificate.read_text()[:200]),
        "gone": files.key.unlink,
    }
    spoil[fault]()
    until = time.monotonic() + WITHIN_S
    while running.gate.log.count("certificate_not_changed") == told:
        assert shown(running.gate.port) == before
        assert time.monotonic() < until, running.gate.log
    assert str(files.key.parent) in running.gate.log
    assert running.answers(1) == "t0 "
    running.issuer.mounted(Role.WORKER)
    until_shown(running, before)


def test_an_authority_is_exchanged_without_a_refusal(running: Site, tmp_path: Path) -> None:
    """Finding 3.15: with both in the file old and new certificates are known; afterwards the old ones are unknown."""
    new = Issuer(tmp_path / "new", "the next authority")
    both = running.issuer.pair.certificate + new.pair.certificate
    old_gateway = attacker(running.issuer, "old-gateway")
    for role in (Role.WORKER, Role.GATEWAY):
        replace(running.issuer.files(role).authorities, both)
    for role in (Role.WORKER, Role.GATEWAY):
        before = shown(running.gate.port)
        running.issuer.mounted(role, new.issued(role), trusts=both)
        if role is Role.WORKER:
            until_shown(running, before)
        assert running.answers(1) == "t0 "
    assert get(f"{running.gate.url}/penstock/load", old_gateway).status_code == 200
    for role in (Role.WORKER, Role.GATEWAY):
        replace(running.issuer.files(role).authorities, new.pair.certificate)
    until_refused(running, old_gateway)
    assert running.answers(1) == "t0 "


def until_shown(running: Site, before: str) -> None:
    """Wait until new connections to the gate meet another certificate."""
    until = time.monotonic() + WITHIN_S
    while shown(running.gate.port) == before:
        assert time.monotonic() < until, running.gate.log


def until_refused(running: Site, context: ssl.SSLContext) -> None:
    """Wait until the gate knows this certificate no more."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        try:
            get(f"{running.gate.url}/penstock/load", context)
        except httpx.TransportError:
            return
    raise AssertionError(running.gate.log)
