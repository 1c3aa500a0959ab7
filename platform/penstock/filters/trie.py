"""How much of a text's end may begin a phrase: the depth of its Aho-Corasick state (CACM 18(6), 1975). Pure."""

from collections import deque
from collections.abc import Iterable


class Trie:
    __slots__ = ("_fail", "_next", "depth")

    def __init__(self, phrases: Iterable[bytes]) -> None:
        self._next: list[dict[int, int]] = [{}]
        self.depth = [0]
        """Bytes by which each state continues a phrase."""
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

    def walk(self, state: int, folded: bytes) -> int:
        following, fail = self._next, self._fail
        for byte in folded:
            while (found := following[state].get(byte)) is None and state:
                state = fail[state]
            state = found or 0
        return state
