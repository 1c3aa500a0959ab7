"""How much of a text's end may begin a phrase: the depth of its Aho-Corasick state (CACM 18(6), 1975). Pure."""

from array import array
from collections import deque
from collections.abc import Iterable

from penstock.filters.normal import folded

BLANK = ord(" ")
_WHITE = b" \t\n\v\f\r"


def start(judged: bytes, depth: int) -> int:
    """Return the index of the last ``depth`` bytes, white space in a row counted as one; 0 if more may precede."""
    at = len(judged)
    for _ in range(depth):
        if not at:
            break
        at -= 1
        while at and judged[at] in _WHITE and judged[at - 1] in _WHITE:
            at -= 1
    return at


class Trie:
    """Blanks in a row are one; no phrase begins with one. A state is the begin of its row: what follows each byte."""

    __slots__ = ("_column", "_depth", "_rows", "_width")

    def __init__(self, phrases: Iterable[bytes]) -> None:
        children, depth = [dict[int, int]()], [0]
        for phrase in phrases:
            state = 0
            for byte in phrase:
                if byte not in children[state]:
                    children[state][byte] = len(children)
                    children.append({})
                    depth.append(depth[state] + 1)
                state = children[state][byte]
        known = sorted({BLANK}.union(*children))
        self._depth, self._width = depth, len(known) + 1
        self._column = bytes(known.index(byte) + 1 if byte in known else 0 for byte in range(256))
        self._rows = self._filled(children)

    def _filled(self, children: list[dict[int, int]]) -> "array[int]":
        """Fill each state's row by that of the longest other beginning in which it ends."""
        width, column = self._width, self._column
        rows = array("I", bytes(array("I").itemsize * width * len(children)))
        waiting = deque([(0, 0, BLANK)])
        while waiting:
            state, other, last = waiting.popleft()
            first = state * width
            rows[first : first + width] = rows[other : other + width]
            for byte, child in children[state].items():
                waiting.append((child, rows[other + column[byte]] if state else 0, byte))
                rows[first + column[byte]] = child * width
            if last == BLANK:
                rows[first + column[BLANK]] = first
        return rows

    def depth(self, state: int) -> int:
        """Return the bytes by which a state continues a phrase."""
        return self._depth[state // self._width]

    def walk(self, state: int, judged: bytes) -> int:
        rows = self._rows
        for column in folded(judged).translate(self._column):
            state = rows[state + column]
        return state
