"""A limits store that is there and does not take the password."""

import tempfile
from pathlib import Path

import pytest

from penstock.connectors.redis.wire import Wire
from penstock.domain.errors import StoreUnavailable
from tests.support.stores.redis_server import RedisServer

pytestmark = pytest.mark.integration


async def test_a_refused_password_is_not_called_out_of_reach() -> None:
    """Of a refusal its code is told, which is no absence of the server, and never what was shown to it."""
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        wire = Wire(f"unix://nobody@{server.socket}?password=secret")
        with pytest.raises(StoreUnavailable) as refused:
            await wire.call("PING")
        await wire.close()
    assert refused.value.message == "the store that gateways share does not let this process in: WRONGPASS"
