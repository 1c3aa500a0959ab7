"""The engine process's own beginning: lifeline, environment, gate, then vLLM's unmodified main.

Started as ``python -m penstock.worker.engines.launch PLAN LIFELINE_FD``, or forked from the pre-imported parent.
With ``spawn`` vLLM's engine core imports this module again, so importing it must cost and do nothing.
"""

import os
import sys
from pathlib import Path

from penstock.worker import gate_config
from penstock.worker.engines import counting, lifeline, listening, plan, refusals
from penstock.worker.engines.plan import LaunchPlan


def run(launch: LaunchPlan, lifeline_fd: int) -> None:
    """Become the engine; returns when it has shut down. The caller leads its process group."""
    lifeline.die_with(lifeline_fd)
    os.environ.update(launch.environment)  # noqa: TID251 - it is how vLLM is configured; nothing is read here
    gate_config.install(launch.gate)
    sys.argv = ["penstock-engine", *launch.argv]

    from vllm.entrypoints.launchers.api_server.entry import main

    counting.install()
    refusals.install()
    if launch.tls is not None:
        listening.install(launch.tls)
    main()


def main() -> None:
    """Read what to run from the command line, and run it."""
    path, fd = sys.argv[1:3]
    run(plan.read(Path(path)), int(fd))


if __name__ == "__main__":
    main()
