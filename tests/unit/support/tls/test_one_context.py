"""Clients of a test session share what httpx would read anew for each of them."""

import ssl
from typing import Any

import httpx
import pytest

from tests.support.tls import one_context


def test_clients_that_name_nothing_read_the_authorities_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients are made, the one context is theirs; it verifies."""
    assert one_context.shared().verify_mode is ssl.CERT_REQUIRED
    assert one_context.shared().get_ca_certs()
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("the authorities are read again"))
    for _ in range(2):
        httpx.Client(trust_env=False).close()


@pytest.mark.parametrize("named", [{"verify": False}, {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}, {}])
def test_who_names_another_gets_another(named: dict[str, Any]) -> None:
    """A client's own context, none, and that of an environment are its own."""
    found = one_context.context(**named)
    assert found is not one_context.shared()
    assert found is named.get("verify") or not isinstance(named.get("verify"), ssl.SSLContext)
