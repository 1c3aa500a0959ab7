"""What an engine would fetch for a caller who names an address, asked of vLLM itself."""

import os
import socket
import subprocess
import sys

import pytest

from penstock.worker.engines.vllm import NOWHERE, Place, environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

FETCH = """
import sys
from vllm.multimodal.media import ImageMediaIO, MediaConnector
try:
    MediaConnector(allowed_media_domains=sys.argv[2:]).fetch_image(sys.argv[1])
except Exception as error:
    print(type(error).__name__)
"""


def fetched(*allowed: str) -> tuple[str, bool]:
    """Return the error with which vLLM fetches a picture here, and whether it came to our port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/a.png"
        done = subprocess.run(
            [sys.executable, "-c", FETCH, url, *allowed],
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
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return done.stdout.strip(), False
        return done.stdout.strip(), True


@pytest.mark.slow
def test_an_engine_fetches_nothing() -> None:
    """Finding 15: with our one allowed host vLLM refuses an address unseen; with an empty list it would go there."""
    assert fetched(NOWHERE) == ("ValueError", False)
    assert fetched()[1]
