"""Where a worker may say that it is (a stolen worker's key: no gateway is sent anywhere else)."""

import pytest

from penstock.control.fleet.addresses import WorkerAddresses
from penstock.domain.errors import Forbidden

ALONE = WorkerAddresses()
NAMED = WorkerAddresses.of(["10.0.0.0/8", " fd00::/8", "0.0.0.0/0", ".workers.svc.cluster.local"])


@pytest.mark.parametrize(
    ("url", "peer"),
    [
        ("http://127.0.0.1:40123", "127.0.0.1"),
        ("http://localhost:40123", "127.0.0.1"),
        ("http://127.0.0.2:1", "::1"),
        ("http://[::1]:40123", "127.0.0.1"),
        ("http://10.1.2.3:8000", "10.1.2.3"),
        ("http://10.1.2.3:8000/", "::ffff:10.1.2.3"),
        ("https://[fd00::7]:8000", "fd00::7"),
    ],
)
def test_a_worker_is_where_it_reports_from(url: str, peer: str) -> None:
    """One machine and a cluster that leaves addresses as they are need no setting."""
    assert ALONE.reached_at(url, peer) == url


@pytest.mark.parametrize(
    ("url", "peer", "there"),
    [
        ("http://0.0.0.0:8000", "10.1.2.3", "http://10.1.2.3:8000"),
        ("http://0.0.0.0:8000", "::ffff:10.1.2.3", "http://10.1.2.3:8000"),
        ("http://[::]:8000", "fd00::7", "http://[fd00::7]:8000"),
        ("http://0.0.0.0:8000", "127.0.0.1", "http://127.0.0.1:8000"),
    ],
)
def test_one_that_listens_everywhere_is_found_where_it_reports_from(url: str, peer: str, there: str) -> None:
    """A pod needs not know its own address."""
    assert ALONE.reached_at(url, peer) == there


@pytest.mark.parametrize(
    "url",
    [
        "http://10.1.2.3:0",
        "http://10.1.2.3:99999",
        "http://169.254.169.254:80",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]:80",
        "http://[::ffff:169.254.169.254]:80",
        "http://127.0.0.1:5432",
        "http://localhost:5432",
        "http://10.9.9.9:8000",
        "http://2852039166:80",
        "http://0251.0376.0251.0376:80",
        "http://metadata.google.internal:80",
        "http://10.1.2.3:8000/penstock/../admin",
        "http://10.1.2.3:8000?x=",
        "http://10.1.2.3@169.254.169.254:80",
        "http://10.1.2.3:80@169.254.169.254:80",
        "http://10.1.2.3\\@169.254.169.254:80",
        "http://10.1.2.3:8000\r\nhost: x",
        "file:///etc/passwd",
        "http://10.1.2.3",
        "",
    ],
)
def test_no_worker_leads_gateways_elsewhere(url: str) -> None:
    """A stolen worker's key: it reports from 10.1.2.3, and any other place is refused (SSRF)."""
    with pytest.raises(Forbidden):
        ALONE.reached_at(url, "10.1.2.3")


@pytest.mark.parametrize("url", ["http://10.9.9.9:1", "http://[fd12::1]:1", "http://w0.workers.svc.cluster.local:1"])
def test_operators_name_where_workers_are(url: str) -> None:
    """Behind a proxy that changes the sender's address, networks and domains are a setting."""
    assert NAMED.reached_at(url, "192.168.0.1") == url


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254:80", "http://evilworkers.svc.cluster.local:1", "http://[fe80::1]:1"]
)
def test_the_metadata_of_a_cloud_is_in_no_network(url: str) -> None:
    """Not even where operators named all there are."""
    with pytest.raises(Forbidden):
        NAMED.reached_at(url, "192.168.0.1")


def test_a_damaged_network_is_no_domain() -> None:
    """A slip of the pen does not open or shut anything silently."""
    with pytest.raises(ValueError, match="99"):
        WorkerAddresses.of(["10.0.0.0/99"])
