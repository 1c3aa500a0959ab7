"""Random bytes from the kernel, read in blocks: a system call for each few bytes costs 5 µs of a request."""

import os
import secrets
from threading import Lock

BLOCK_BYTES = 4096


class _Block:
    """No byte is used twice, and a forked child starts with its own block."""

    __slots__ = ("at", "data", "lock")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.data, self.at, self.lock = b"", 0, Lock()


_block = _Block()
os.register_at_fork(after_in_child=_block.forget)


def random_bytes(size: int) -> bytes:
    block = _block
    with block.lock:
        at, end = block.at, block.at + size
        if end > len(block.data):
            block.data, at, end = secrets.token_bytes(size + BLOCK_BYTES), 0, size
        block.at = end
        return block.data[at:end]
