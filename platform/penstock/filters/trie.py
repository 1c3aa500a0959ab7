"""How much of a text's end may begin a phrase: the depth of its Aho-Corasick state (CACM 18(6), 1975). Pure."""

from collections import deque
from collections.abc import Iterable

from penstock.filters.normal import folded

BLANK = ord(" ")
_WHITE = b" \t\r\n"


def start(judged: bytes, depth: int) -> int:
    """Return the index from which a text ends in ``depth`` bytes, counting white space in a row as one."""
    at = len(judged)
    for _ in range(depth):
        at -= 1
        while at and judged[at] in _WHITE and judged[at - 1] in _WHITE:
            at -= 1
    return at


class Trie:
    """Blanks in a row are one; no phrase begins with one."""

    __slots__ = ("_fail", "_is_blank", "_next", "depth")

    def __init__(self, phrases: Iterable[bytes]) -> None:
        self._next: list[dict[int, int]] = [{}]
        self.depth = [0]
        """Bytes by which each state continues a phrase."""
        self._is_blank = [True]
        for phrase in phrases:
            self._add(phrase)
        self._fail = self._fails()

    def _add(self, phrase: bytes) -> None:
        state = 0
        for byte in phrase:
            if byte not in self._next[state]:
                self._next[state][byte] = len(self._next)
                self._next.append({})
                self.depth.append(self.depth[state] + 1)
                self._is_blank.append(byte == BLANK)
            state = self._next[state][byte]

    def _fails(self) -> list[int]:
        fail = [0] * len(self._next)
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            for byte, child in self._next[state].items():
                at = fail[state]
                while at and byte not in self._next[at]:
                    at = fail[at]
                fail[child] = self._next[at].get(byte, 0)
                waiting.append(child)
        return fail

    def walk(self, state: int, judged: bytes) -> int:
        following, fail, is_blank = self._next, self._fail, self._is_blank
        for byte in folded(judged):
            if byte == BLANK and is_blank[state]:
                continue
            while (found := following[state].get(byte)) is None and state:
                state = fail[state]
            state = found or 0
        return state
