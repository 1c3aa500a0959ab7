"""Streaming: sends a worker's answer to the client, token by token or whole."""

from penstock.gateway.streaming.continuation import is_plain
from penstock.gateway.streaming.continuity import TokenReader
from penstock.gateway.streaming.relays import RelaySettings, StreamingRelays, Wants

__all__ = ["RelaySettings", "StreamingRelays", "TokenReader", "Wants", "is_plain"]
