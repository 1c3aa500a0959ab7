"""Ends an engine's server after its core has ended, and logs the core's exit code, which only this process knows.

vLLM's own shutdown waits for all requests, for ever if one waits for the dead core, and exits with code 0. Written for
vLLM 0.32.
"""

import logging
import os
import re
from collections.abc import Callable
from typing import Any

_SAYS = "engine core ended with code"
EXIT_WITHOUT_CORE = 1
_SAID = re.compile(rf"^{_SAYS} (-?\d+)$")


def install() -> None:
    from vllm.v1.engine.utils import CoreEngineProcManager

    CoreEngineProcManager.monitor_engine_liveness = saying(CoreEngineProcManager.monitor_engine_liveness)


def saying(monitor: Callable[[Any], None]) -> Callable[[Any], None]:
    """End this process if the core ends unexpectedly."""

    def monitor_engine_liveness(self: Any) -> None:  # noqa: ANN401  vLLM is untyped here
        monitor(self)
        code = self.finished_procs().get(self.failed_proc_name)
        if code is not None:
            logging.getLogger(__name__).error("%s %d", _SAYS, code)
            os._exit(EXIT_WITHOUT_CORE)

    return monitor_engine_liveness


def code_of(lines: list[str]) -> int | None:
    codes = [int(found[1]) for line in lines if (found := _SAID.match(line))]
    return codes[-1] if codes else None
