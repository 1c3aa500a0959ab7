"""Says in the engine's log how its core ended: vLLM's server notices that its core is gone, and ends in good order.

Its exit code is 0 then, whatever killed the core, and the core's own is known to this process alone. Written for vLLM
0.32; an engine that has no such places does not start.
"""

import logging
import re
from collections.abc import Callable
from typing import Any

_SAYS = "engine core ended with code"
_SAID = re.compile(rf"^{_SAYS} (-?\d+)$")


def install() -> None:
    """Say it from now on."""
    from vllm.v1.engine.utils import CoreEngineProcManager

    CoreEngineProcManager.monitor_engine_liveness = saying(CoreEngineProcManager.monitor_engine_liveness)


def saying(monitor: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the watch over the core's processes, which says what one has died of that nobody asked to end."""

    def monitor_engine_liveness(self: Any) -> None:  # noqa: ANN401  vLLM is untyped here
        monitor(self)
        code = self.finished_procs().get(self.failed_proc_name)
        if code is not None:
            logging.getLogger(__name__).error("%s %d", _SAYS, code)

    return monitor_engine_liveness


def code_of(lines: list[str]) -> int | None:
    """Return what the last of these lines says that says it; None where none does."""
    codes = [int(found[1]) for line in lines if (found := _SAID.match(line))]
    return codes[-1] if codes else None
