"""`penstock up --tls`: a whole platform on one machine, with real vLLM behind its gate."""

import re
from collections.abc import Callable

import httpx
import pytest

from penstock.domain.clock import SystemClock
from penstock.local import certificates
from penstock.settings import Settings
from penstock.settings.told import Home, Tls
from penstock.tls.identity import Role
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.tls.processes import anybody, operator, shown

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_platform_of_one_machine_speaks_to_itself_in_tls_alone(start_platform: Callable[..., Platform]) -> None:
    """Finding 3.15: questions, commands and restarts work as before, and a client without a certificate gets no
    answer.
    """
    platform = start_platform("secure", models="minilm", tls="on")
    question = {"model": "minilm", "input": "Hi"}
    with platform.http() as http:
        assert http.post("/v1/embeddings", json=question).status_code == 200
    controller = Home(platform.home).controller_address.read_text().strip()
    gate = _gate(platform)
    for url in (f"{controller}/readyz", f"{gate}/penstock/load"):
        assert url.startswith("https://")
        with pytest.raises(httpx.TransportError, match=r"CERTIFICATE.REQUIRED"):
            httpx.get(url, verify=anybody(), trust_env=False)
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https://", "http://"), trust_env=False)
    assert httpx.get(f"{controller}/readyz", verify=operator(platform.home), trust_env=False).status_code == 200
    assert httpx.get(f"{gate}/penstock/load", verify=operator(platform.home), trust_env=False).status_code == 403
    _renewed(platform, gate)
    said = platform.run("status").stdout
    assert "leads at https://" in said
    assert re.search(r"certificates: the controller's until .* \([\d.]+ h\), yours until", said)
    with platform.http() as http:
        assert http.post("/v1/embeddings", json=question).status_code == 200


def _gate(platform: Platform) -> str:
    controller = Home(platform.home).controller_address.read_text().strip()
    key = {"authorization": f"Bearer {platform.admin_key}"}
    answer = httpx.get(f"{controller}/admin/v1/workers", headers=key, verify=operator(platform.home), trust_env=False)
    return str(answer.json()["workers"][0]["url"])


def _renewed(platform: Platform, gate: str) -> None:
    """Exchange every certificate of the home, as the platform does when they end soon, and wait for the gate's."""
    port = int(gate.rpartition(":")[2])
    before = shown(port)
    for role in Role:
        (platform.home / f"tls/{role}.pem").unlink()
    settings = Settings().model_copy(update={"home": platform.home, "tls": Tls.ON})
    assert certificates.ensure(settings, SystemClock()) == len(Role)
    until("the gate shows the new one", lambda: shown(port) != before)
