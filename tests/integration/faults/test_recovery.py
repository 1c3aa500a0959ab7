"""Everything dies at once, in the middle of work: the next start needs no hand."""

import time

import pytest

from tests.support.clients.sockets import Stream
from tests.support.failures.table import FaultTable
from tests.support.patience import until
from tests.support.platforms.books import Books
from tests.support.platforms.readings import Fleet
from tests.support.samples.chat_bodies import CHAT, chat, long_answer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.drill
def test_everything_killed_at_once(pair: Fleet, books: Books, faults: FaultTable) -> None:
    """After `kill -9` of every process under load `penstock up` serves again, with the same keys, tenants and books."""
    platform = pair.platform
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
    books.balance()
    assert [row["request"] for row in books.left_behind] == [stream.headers["x-request-id"]]
    faults.add("`kill -9` of everything under load, then `penstock up`", "serves again with the same keys", took_s)
