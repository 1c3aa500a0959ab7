"""Which URLs and addresses are called back: none of the inside, in whatever form it is written."""

from ipaddress import ip_address

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.jobs.callback_url import is_public, may_reach, networks, parse

INSIDE = """
127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 255.255.255.255 224.0.0.1
192.0.0.8 192.88.99.1 198.18.0.1 203.0.113.7
::1 :: fe80::1 fc00::1 fd00:ec2::254 fec0::1 ff02::1 ::ffff:127.0.0.1 ::127.0.0.1 ::ffff:8.8.8.8
64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1::1 2001::1 2001:db8::1 3fff::1
""".split()
OUTSIDE = "1.1.1.1 8.8.8.8 172.32.0.1 100.128.0.1 2606:4700::1111 2a00:1450::1".split()


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_of_the_inside_are_refused(address: str) -> None:
    """Private, loopback, link-local, shared, multicast, and IPv6 with an IPv4 in it: ``is_global`` passes nine."""
    assert not is_public(ip_address(address))
    assert not may_reach([ip_address(address)], parse("https://example.com/"), ())


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_reached(address: str) -> None:
    """By TLS, on port 443."""
    assert may_reach([ip_address(address)], parse("https://example.com/"), ())


def test_all_addresses_of_a_name_count() -> None:
    """One inside address among public ones refuses the name, and none is no permission."""
    url = parse("https://example.com/")
    assert not may_reach([ip_address("1.1.1.1"), ip_address("127.0.0.1")], url, ())
    assert not may_reach([], url, ())


def test_own_networks_are_reached_at_any_port_and_without_tls() -> None:
    """What an operator allows holds for those networks alone: plain HTTP reaches nothing else."""
    own = networks(["10.20.0.0/16", " fd00::/8 "])
    plain = parse("http://receiver.internal:9000/x", own)
    assert may_reach([ip_address("10.20.0.9")], plain, own)
    assert may_reach([ip_address("fd00::1")], plain, own)
    assert not may_reach([ip_address("1.1.1.1")], plain, own)
    assert not may_reach([ip_address("10.21.0.9")], plain, own)
    assert not may_reach([ip_address("10.20.0.9"), ip_address("1.1.1.1")], plain, own)
    assert not may_reach([ip_address("1.1.1.1")], parse("https://example.com:8443/", own), own)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("https://127.0.0.1/", "public Internet"),
        ("https://[64:ff9b::7f00:1]/", "public Internet"),
        ("https://[::ffff:127.0.0.1]/", "public Internet"),
        ("https://169.254.169.254/latest/meta-data", "public Internet"),
        ("https://0x7f000001/", "usual form"),
        ("https://2130706433/", "usual form"),
        ("https://127.1/", "usual form"),
        ("https://0177.0.0.1/", "usual form"),
        ("https://1.2.3.4.5/", "usual form"),
        ("https://-a.example/", "usual form"),
        (f"https://{'a' * 64}.example/", "usual form"),
        ("https://①②⑦.⓪.⓪.①/", "xn--"),
        ("https://bücher.example/", "xn--"),
        ("http://127.0.0.1\\@example.com/", "user or password"),
        ("https://user:secret@example.com/", "user or password"),
        ("https://example.com\\.internal/", "no URL"),
        ("https://example.com/a\\b", "no URL"),
        ("https://example.com/#part", "no URL"),
        ("https://example.com/a b", "no URL"),
        ("https://example.com/\r\nhost: x", "no URL"),
        ("https://[fe80::1%25eth0]/", "no URL"),
        ("https:///path", "no URL"),
        ("http://example.com/", "https:// on port 443"),
        ("https://example.com:8443/", "https:// on port 443"),
        ("https://example.com:0/", "valid port"),
        ("https://example.com:99999/", "valid port"),
        ("ftp://example.com/", "begin with https://"),
        ("javascript:alert(1)", "begin with https://"),
        ("", "begin with https://"),
        ("https://example.com/" + "a" * 2048, "longer than 2048"),
    ],
)
def test_a_bad_url_is_refused_with_its_remedy(url: str, remedy: str) -> None:
    """By the field's name, and without a part of the URL in the message."""
    with pytest.raises(InvalidField, match="webhook's URL") as refused:
        parse(url)
    assert remedy in refused.value.message
    assert refused.value.param == "url"
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("https://Hooks.Example.COM", "hooks.example.com", "/"),
        ("https://example.com./A?b=C", "example.com", "/A?b=C"),
        ("https://example.com?q=A", "example.com", "/?q=A"),
        ("https://example.com:443/%C3%A9", "example.com", "/%C3%A9"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", "/"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]", "/"),
    ],
)
def test_a_good_url_is_read(url: str, authority: str, target: str) -> None:
    """Hosts in lower case, paths and queries as they are."""
    parsed = parse(url)
    assert (parsed.authority, parsed.target) == (authority, target)
