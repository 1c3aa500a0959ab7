"""Work that would block the event loop, done by child processes."""

from penstock.connectors.offload.pool import OffloadPool

__all__ = ["OffloadPool"]
