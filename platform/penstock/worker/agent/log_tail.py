"""The end of an engine's log: signs of activity, and the reason of an exit."""

from contextlib import suppress
from pathlib import Path

from penstock.telemetry.log_files import LogBounds, rotate
from penstock.worker.engines import core_end

_DETAIL_CHARS = 300


class LogTail:
    def __init__(self, path: Path, bounds: LogBounds | None = None) -> None:
        self._path = path
        self._bounds = bounds or LogBounds()
        self._at = path.stat().st_size if path.exists() else 0
        self._end = b""

    @property
    def position(self) -> int:
        return self._at

    def has_new(self, words: tuple[bytes, ...]) -> bool:
        new = self._read()
        return any(word in new for word in words)

    def reason(self) -> str:
        lines = self._lines()
        for at in reversed(range(len(lines))):
            if "Error: " in lines[at] and "See root cause" not in lines[at]:
                return " ".join(lines[at : at + 2])[:_DETAIL_CHARS]
        return (lines or ["it wrote nothing"])[-1][:_DETAIL_CHARS]

    def core_code(self) -> int | None:
        return core_end.code_of(self._lines())

    def trim(self) -> None:
        self._read()
        if rotate(self._path, self._bounds):
            self._at = 0

    def _lines(self) -> list[str]:
        self._read()
        return [line.strip() for line in self._end.decode(errors="replace").splitlines() if line.strip()]

    def _read(self) -> bytes:
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._at)
            new = file.read()
            self._at += len(new)
            self._end = (self._end + new)[-16384:]
            return new
        return b""
