"""Everything dies at once, in the middle of work: the next start needs no hand."""

import time
from collections.abc import Callable

import pytest

from tests.support.asks import CHAT, chat, long_answer
from tests.support.faults import FaultTable
from tests.support.platform import Platform, until
from tests.support.wire import Stream

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]


def test_everything_killed_at_once(start_platform: Callable[..., Platform], faults: FaultTable) -> None:
    """After `kill -9` of every process under load `penstock up` serves again, with the same keys and tenants."""
    platform = start_platform()
    key = platform.demo_key
    stream = Stream(url=platform.url, key=key, body=long_answer(400)).start()
    until("tokens come", lambda: stream.tokens >= 3, within_s=20)
    platform.run("tenants", "create", "survivor")
    platform.kill_all()
    stream.join(10)
    assert not stream.done
    began = time.monotonic()
    platform.start()
    took_s = time.monotonic() - began
    assert platform.demo_key == key
    with platform.http(key) as http:
        assert http.post(CHAT, json=chat("Hi")).status_code == 200
    assert "survivor" in platform.run("tenants", "list").stdout
    faults.add("`kill -9` of everything under load, then `penstock up`", "serves again with the same keys", took_s)
