"""Finds the line of a file that begins with something, in a thread of a process whose event loop must go on.

A slice holds the interpreter for a tenth of a millisecond, and ten times that is a pause: whoever asks again and
again takes a tenth of a core, and no token waits.
"""

import os
import time
from pathlib import Path

SLICE_BYTES = 256 << 10
PAUSE_S = 0.001
MOST_LINE_BYTES = 64 << 10


def beginning(path: Path, start: bytes) -> bytes:
    """Return the first whole line that begins so, without its end; nothing where there is none, or no file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        at = _offset(fd, b"\n" + start)
        line, ended, _ = os.pread(fd, MOST_LINE_BYTES, at).partition(b"\n") if at >= 0 else (b"", b"", b"")
        return line if ended else b""
    finally:
        os.close(fd)


def _offset(fd: int, needle: bytes) -> int:
    """Return where the line begins, -1 where there is none."""
    offset, tail = 0, b"\n"
    while piece := os.pread(fd, SLICE_BYTES, offset):
        found = (tail + piece).find(needle)
        if found >= 0:
            return offset - len(tail) + found + 1
        offset += len(piece)
        tail = piece[-len(needle) + 1 :]
        time.sleep(PAUSE_S)
    return -1
