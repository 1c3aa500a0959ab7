"""Stores the durations of a version's last start, to predict the next."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId

_AWAITED = "awaited"


class PhaseMemory:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recall(self, version: VersionId, *, is_warm: bool = False) -> dict[WorkerState, float]:
        """Seconds by phase, empty if unknown. ``is_warm``: the pre-imported parent is ready, so the wait for imports is
        left out.
        """
        with suppress(OSError, ValueError, AttributeError, TypeError):
            raw = json.loads(self._path(version).read_text())
            awaited_s = float(raw.pop(_AWAITED, 0.0))
            took_s = {WorkerState(phase): float(seconds) for phase, seconds in raw.items()}
            if is_warm and WorkerState.LOADING in took_s:
                took_s[WorkerState.LOADING] = max(0.0, took_s[WorkerState.LOADING] - awaited_s)
            return took_s
        return {}

    def keep(self, version: VersionId, took_s: Mapping[WorkerState, float], awaited_s: float = 0.0) -> None:
        path = self._path(version)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.{os.getpid()}")
            new.write_text(json.dumps({**took_s, _AWAITED: awaited_s}))
            new.replace(path)

    def _path(self, version: VersionId) -> Path:
        return self._folder / f"{version.replace('/', '_')}.json"
