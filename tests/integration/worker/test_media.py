"""Addresses in requests that an engine would fetch for a caller, asked of vLLM itself."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from penstock.worker.engines.vllm import NOWHERE, Place, environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

FETCH = """
import sys
from vllm.multimodal.media import ImageMediaIO, MediaConnector
for asked in sys.argv[1:]:
    url, *allowed = asked.split()
    try:
        MediaConnector(allowed_media_domains=allowed).fetch_image(url)
    except Exception as error:
        print(type(error).__name__)
"""


def fetched(*allowed: str) -> list[tuple[str, bool]]:
    """Return, for each host that is allowed or none, vLLM's error for a picture here, and whether it came for it."""
    with ExitStack() as open_:
        listeners = [open_.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in allowed]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                FETCH,
                *(f"{url_of(one)} {host}" for one, host in zip(listeners, allowed, strict=True)),
            ],
            env={
                **os.environ,
                **dict(environment(Place(host="", port=0))),
                "VLLM_IMAGE_FETCH_TIMEOUT": "1",
                "VLLM_MEDIA_FETCH_MAX_RETRIES": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        errors = done.stdout.split()
        return [(error, came(one)) for error, one in zip(errors, listeners, strict=True)]


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
def test_an_engine_fetches_nothing() -> None:
    """Finding 15: with our one allowed host vLLM refuses an address unseen; with an empty list it would go there."""
    ours, nobodys = fetched(NOWHERE, "")
    assert ours == ("ValueError", False)
    assert nobodys[1]
