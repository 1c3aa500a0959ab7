"""Logs the exit code of an engine's core: vLLM's server notices the loss and exits normally.

The server's exit code is then 0, and only this process knows the core's. Written for vLLM 0.32; an engine without these
functions does not start.
"""

import logging
import re
from collections.abc import Callable
from typing import Any

_SAYS = "engine core ended with code"
_SAID = re.compile(rf"^{_SAYS} (-?\d+)$")


def install() -> None:
    from vllm.v1.engine.utils import CoreEngineProcManager

    CoreEngineProcManager.monitor_engine_liveness = saying(CoreEngineProcManager.monitor_engine_liveness)


def saying(monitor: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap the monitor of the core's processes: it logs the exit code of a core that ended unexpectedly."""

    def monitor_engine_liveness(self: Any) -> None:  # noqa: ANN401  vLLM is untyped here
        monitor(self)
        code = self.finished_procs().get(self.failed_proc_name)
        if code is not None:
            logging.getLogger(__name__).error("%s %d", _SAYS, code)

    return monitor_engine_liveness


def code_of(lines: list[str]) -> int | None:
    codes = [int(found[1]) for line in lines if (found := _SAID.match(line))]
    return codes[-1] if codes else None
