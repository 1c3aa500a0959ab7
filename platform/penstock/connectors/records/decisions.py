"""The controller's decisions in one file of its home: bounded, kept across restarts, newest last."""

import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from penstock.domain.fleet.decision import Decided

MOST_KEPT = 2000
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Decided)


class DecisionFile:
    """Decisions are lost at a restart if the disk is full, but the controller continues."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: deque[Decided] = deque(_read(path), maxlen=MOST_KEPT)
        self._lines = len(self._kept)

    def note(self, decided: Sequence[Decided]) -> None:
        self._kept.extend(decided)
        self._lines += len(decided)
        try:
            if self._lines > 2 * MOST_KEPT:
                self._write(self._kept, os.O_TRUNC)
                self._lines = len(self._kept)
            else:
                self._write(decided, os.O_APPEND)
        except OSError:
            return

    def newest(self, limit: int) -> tuple[Decided, ...]:
        return tuple(reversed(self._kept))[:limit]

    def _write(self, decided: Iterable[Decided], how: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb") as file:
            file.write(b"".join(_encode(one) + b"\n" for one in decided))


def _read(path: Path) -> list[Decided]:
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            found.append(_decoder.decode(line))
        except msgspec.MsgspecError:  # torn, or of another release
            continue
    return found
