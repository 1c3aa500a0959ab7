"""What the settings mean for mutual TLS, and which stores are refused."""

from pathlib import Path

import pytest

from penstock.apps import peers
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local import certificates, connections
from penstock.settings import Settings, environment_of_workers
from penstock.settings.told import Tls
from penstock.tls.identity import Role
from tests.support.tls.certificates import Issuer


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of an empty home."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    return Settings()


def with_(settings: Settings, **told: object) -> Settings:
    return settings.model_copy(update=told)


def test_one_machine_has_none(settings: Settings) -> None:
    """By default nothing is shown and nothing is asked for."""
    assert peers.mutual(settings, Role.GATEWAY, SystemClock()) is None


def test_a_home_has_an_authority_of_its_own(settings: Settings) -> None:
    """`penstock up --tls` makes what each role needs, private, and makes it once."""
    ours = with_(settings, tls=Tls.ON)
    assert certificates.ensure(ours, SystemClock()) == 1 + len(Role)
    for role in Role:
        found = peers.mutual(ours, role, SystemClock())
        assert found is not None
        assert (found.identity.role, str(found.identity)) == (role, f"spiffe://penstock/{role}")
    assert {file.stat().st_mode & 0o077 for file in settings.paths.tls.iterdir()} == {0}
    assert certificates.ensure(ours, SystemClock()) == 0


class Later(SystemClock):
    """So many days from now."""

    def __init__(self, days: float) -> None:
        self.days = days

    def now(self) -> float:
        return super().now() + self.days * 86_400


def test_a_home_renews_what_ends_soon(settings: Settings) -> None:
    """A platform that runs for weeks has certificates all the time; its authority stays."""
    ours = with_(settings, tls=Tls.ON)
    certificates.ensure(ours, SystemClock())
    assert certificates.ensure(ours, Later(15)) == 0
    assert certificates.ensure(ours, Later(25)) == len(Role)
    assert peers.mutual(ours, Role.WORKER, Later(40)) is not None


def test_a_worker_gets_no_other_process_certificate(settings: Settings, tmp_path: Path) -> None:
    """What says who the controller is stays with it; its workers are told to use their own."""
    told = environment_of_workers(with_(settings, tls_cert_file=str(tmp_path / "a"), tls_key_file="b", tls_ca_file="c"))
    assert (told["PENSTOCK_TLS_CERT_FILE"], told["PENSTOCK_TLS_CA_FILE"], told["PENSTOCK_TLS"]) == ("", "", "on")


def test_who_shows_a_certificate_expects_one(settings: Settings) -> None:
    """Without a home, commands look where controllers listen: in TLS where they have a certificate."""
    ours = with_(settings, key="psk_x")
    assert connections.controller_address(ours) == "http://127.0.0.1:8079"
    assert connections.controller_address(with_(ours, tls_cert_file="/own")) == "https://127.0.0.1:8079"


def test_half_a_certificate_is_named(settings: Settings) -> None:
    """Finding 3.15: a certificate without its key or authorities ends the start with what is missing."""
    with pytest.raises(CommandError, match="without PENSTOCK_TLS_KEY_FILE and PENSTOCK_TLS_CA_FILE"):
        peers.mutual(with_(settings, tls_cert_file="/x"), Role.GATEWAY, SystemClock())


@pytest.mark.parametrize("name", ["tls_cert_file", "tls_key_file", "tls_ca_file"])
def test_a_certificate_contradicts_off(settings: Settings, name: str) -> None:
    """Whoever names a certificate and says `off` was silently without TLS; now the start ends with both names."""
    told = with_(settings, tls=Tls.OFF, **{name: "/x"})
    with pytest.raises(CommandError, match=f"PENSTOCK_TLS=off contradicts PENSTOCK_{name.upper()}:"):
        peers.mutual(told, Role.GATEWAY, SystemClock())
    with pytest.raises(CommandError, match="contradicts"):
        certificates.ensure(told, SystemClock())


@pytest.mark.parametrize("key", ["platform_key_file", "worker_key_file"])
def test_mounted_keys_want_a_certificate(settings: Settings, key: str) -> None:
    """Finding 3.15: a platform whose keys are mounted speaks to nobody in the clear, unless it is told to."""
    mounted = with_(settings, **{key: "/run/secrets/key"})
    with pytest.raises(CommandError) as refused:
        peers.mutual(mounted, Role.WORKER, SystemClock())
    assert "PENSTOCK_TLS_CERT_FILE" in refused.value.do
    assert "PENSTOCK_TLS=off" in refused.value.do
    assert peers.mutual(with_(mounted, tls=Tls.OFF), Role.WORKER, SystemClock()) is None


@pytest.mark.parametrize(
    ("told", "remedy"),
    [
        ({"database_url": "postgresql://u@db/p?sslmode=require"}, "PENSTOCK_DATABASE_CA_FILE"),
        ({"limits_url": "redis://cache:6379/0"}, "Use rediss:// (name the authority"),
        ({"answers_url": "redis://cache:6379/1"}, "PENSTOCK_ANSWERS_CA_FILE"),
    ],
)
def test_a_store_that_could_be_anybody_is_refused(
    settings: Settings, tmp_path: Path, told: dict[str, str], remedy: str
) -> None:
    """Finding 3.15: with certificates or mounted keys a start without verified stores ends with the remedy."""
    Issuer(tmp_path).mounted(Role.GATEWAY)
    for strict in ({"tls": Tls.ON}, {"platform_key_file": "/k"}):
        with pytest.raises(CommandError) as refused:
            peers.check_stores(with_(settings, **strict, **told))
        assert remedy in refused.value.do
    peers.check_stores(with_(settings, platform_key_file="/k", tls=Tls.OFF, **told))
    peers.check_stores(with_(settings, **told))


def test_a_database_whose_authority_is_named_is_verified_in_full(settings: Settings) -> None:
    """The authority's file alone makes the check: whatever the address says of TLS, the last word is verify-full."""
    told = with_(settings, database_url="postgresql://u@db/p?sslmode=disable", database_ca_file="/ca.pem", tls=Tls.ON)
    assert told.database_address.endswith("?sslmode=disable&sslmode=verify-full&sslrootcert=/ca.pem")
    peers.check_stores(told)
