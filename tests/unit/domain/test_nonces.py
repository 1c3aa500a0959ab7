"""Random bytes from blocks: none is given twice, in a forked child neither."""

import os

import pytest

from penstock.domain.nonces import BLOCK_BYTES, random_bytes


@pytest.mark.parametrize("size", [1, 9, 16, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES])
def test_so_many_bytes_come(size: int) -> None:
    """A size is kept within a block, beyond its end and beyond a whole one."""
    assert [len(random_bytes(size)) for _ in range(3)] == [size] * 3


def test_no_bytes_come_twice() -> None:
    """Over the ends of blocks, too."""
    drawn = [random_bytes(9) for _ in range(BLOCK_BYTES)]
    assert len(set(drawn)) == len(drawn)


def test_a_forked_child_draws_other_bytes() -> None:
    """The child shares no unused byte with its parent."""
    random_bytes(1)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, random_bytes(16))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) != random_bytes(16)
