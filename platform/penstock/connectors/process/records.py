"""Process records on disk, by which a restarted controller adopts living workers."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.domain.ids import VersionId, WorkerId
from penstock.telemetry.logs import logger


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """``start`` is from `identity.started`; times are Unix seconds, ``draining_at`` 0 if not draining."""

    worker: WorkerId
    version: VersionId
    pid: int
    start: str
    started_at: float
    draining_at: float = 0.0


class Records:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> Iterator[ProcessRecord]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                yield ProcessRecord(**json.loads(path.read_text()))
            except FileNotFoundError:
                continue
            except (ValueError, TypeError):
                logger().warning("worker_record_damaged", path=path.name)
                path.unlink(missing_ok=True)

    def write(self, record: ProcessRecord) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(record.worker)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(record)))
        draft.replace(path)

    def remove(self, worker: WorkerId) -> None:
        self._path(worker).unlink(missing_ok=True)
        self._path(worker).with_suffix(".key").unlink(missing_ok=True)

    def _path(self, worker: WorkerId) -> Path:
        return self._folder / f"{worker}.json"
