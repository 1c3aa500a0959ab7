"""Addresses in requests that an engine would fetch for a caller, asked of vLLM itself."""

import socket

import pytest

from penstock.worker.engines.vllm import NOWHERE, Place, environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
"""torch warns of its own parts when vLLM is imported."""


def fetched(*allowed: str) -> list[tuple[str, bool]]:
    """Return, for each host that is allowed or none, vLLM's error for a picture here, and whether it came for it."""
    from vllm.multimodal.media import MediaConnector

    found = []
    for host in allowed:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with pytest.raises(Exception) as caught:  # noqa: PT011  which one is the question
                MediaConnector(allowed_media_domains=[host] if host else []).fetch_image(url_of(listener))
            found.append((caught.type.__name__, came(listener)))
    return found


def url_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}/a.png"


def came(listener: socket.socket) -> bool:
    listener.settimeout(0)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.slow
def test_an_engine_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 15: with our one allowed host vLLM refuses an address unseen; with an empty list it would go there."""
    impatient = {"VLLM_IMAGE_FETCH_TIMEOUT": "1", "VLLM_MEDIA_FETCH_MAX_RETRIES": "1"}
    for name, value in {**dict(environment(Place(host="", port=0))), **impatient}.items():
        monkeypatch.setenv(name, value)
    ours, nobodys = fetched(NOWHERE, "")
    assert ours == ("ValueError", False)
    assert nobodys[1]
