"""A certificate's files are judged before they are used; each refusal names the file, the reason and the remedy."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.tls import authority
from penstock.tls.authority import KeyPair
from penstock.tls.identity import Role
from penstock.tls.mutual import Mutual
from tests.support.tls.certificates import Issuer, replace

Spoil = Callable[[Issuer, Issuer], None]


def own(issuer: Issuer) -> Mutual:
    return Mutual(issuer.files("gateway"), Role.GATEWAY, SystemClock())


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    """Return an authority with a gateway's certificate mounted."""
    found = Issuer(tmp_path)
    found.mounted(Role.GATEWAY)
    return found


def test_good_files_say_who_the_process_is(issuer: Issuer) -> None:
    """The identity is the certificate's, and no other file or setting says it."""
    assert str(own(issuer).identity) == "spiffe://penstock/gateway"


FAULTS: dict[str, tuple[Spoil, str, str, str]] = {
    "expired": (lambda one, _: mount(one, one.expired(Role.GATEWAY)), "tls.crt", "has expired (", "issued again"),
    "not yet": (
        lambda one, _: mount(one, one.issued(Role.GATEWAY, ago_s=-7200)),
        "tls.crt",
        "is not valid before",
        "clock",
    ),
    "wrong role": (
        lambda one, _: mount(one, one.issued(Role.WORKER)),
        "tls.crt",
        "is of a worker (spiffe://penstock/worker), and this process is a gateway",
        "Mount the gateway's own",
    ),
    "other authority": (
        lambda one, other: mount(one, other.issued(Role.GATEWAY)),
        "tls.crt",
        "is of another authority (CN=a stranger) than those in",
        "put both",
    ),
    "another's key": (
        lambda one, _: rewrite(one, "key", one.issued(Role.GATEWAY).key),
        "tls.key",
        "does not belong to the certificate",
        "same issue",
    ),
    "no identity": (
        lambda one, _: mount(one, one.pair),
        "tls.crt",
        "does not say who this process is: it has no alternative names",
        "spiffe://<trust domain>/gateway",
    ),
    "missing key": (lambda one, _: one.files("gateway").key.unlink(), "tls.key", "There is no key", "Mount the file"),
    "missing certificate": (
        lambda one, _: one.files("gateway").certificate.unlink(),
        "tls.crt",
        "There is no certificate",
        "Mount the file",
    ),
    "missing authorities": (
        lambda one, _: one.files("gateway").authorities.unlink(),
        "ca.crt",
        "There is no file of authorities' certificates",
        "Mount the file",
    ),
    "open key": (
        lambda one, _: one.files("gateway").key.chmod(0o444),
        "tls.key",
        "is open to everybody (mode 0444)",
        "chmod o-rwx",
    ),
    "no PEM": (lambda one, _: rewrite(one, "certificate", "half a cert"), "tls.crt", "can't be read", "as PEM"),
    "no key at all": (
        lambda one, _: rewrite(one, "key", "half a key"),
        "tls.key",
        "can't be used",
        "without a password",
    ),
}


def mount(issuer: Issuer, pair: KeyPair) -> None:
    issuer.mounted(Role.GATEWAY, pair)


def rewrite(issuer: Issuer, part: str, content: str) -> None:
    replace(getattr(issuer.files("gateway"), part), content)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_before_anything_listens(issuer: Issuer, tmp_path: Path, fault: str) -> None:
    """Finding 3.15: the start ends with the file, the reason and the remedy, not with a library's words later."""
    spoil, file, reason, remedy = FAULTS[fault]
    spoil(issuer, Issuer(tmp_path / "other", "a stranger"))
    with pytest.raises(CommandError) as refused:
        own(issuer)
    assert str(tmp_path / "gateway" / file) in refused.value.what
    assert reason in refused.value.what
    assert remedy in refused.value.do


def test_an_authority_may_expire_beside_another(issuer: Issuer, tmp_path: Path) -> None:
    """While one authority takes another's place the file holds both; one of them is enough."""
    gone = Issuer(tmp_path / "gone", "of last year")
    gone.pair = authority.make("old", now=time.time() - 9e6, days=1)
    replace(issuer.files("gateway").authorities, gone.pair.certificate + issuer.pair.certificate)
    assert own(issuer).identity.role is Role.GATEWAY
    replace(issuer.files("gateway").authorities, gone.pair.certificate)
    with pytest.raises(CommandError, match=r"authority's certificate in .* has expired"):
        own(issuer)
