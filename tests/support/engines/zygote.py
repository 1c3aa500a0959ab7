"""The pre-imported parent of engines, started once for many platforms."""

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.worker.engines.process import zygote_argv
from penstock.worker.engines.vllm import at_exec
from tests.support.patience import patient

READY_WITHIN_S = 240.0


class Zygote:
    """A running ``penstock.worker.engines.zygote``; its engines are forked over ``socket``."""

    def __init__(self, folder: Path, compiled: Path) -> None:
        """Keep socket and log in this folder, what engines compile in the other."""
        self.compiled = compiled
        self.socket = folder / "z.sock"
        self.log = folder / "zygote.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it; wait until it listens."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                zygote_argv(self.socket, -1, str(self.compiled)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=at_exec(os.environ),
                start_new_session=True,
            )
        end = time.monotonic() + patient(READY_WITHIN_S)
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self._process.kill()
                self._process.wait()
                raise AssertionError(f"the engines' parent did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
