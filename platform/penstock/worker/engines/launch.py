"""Start of the engine process: lifeline pipe, environment, gate, then vLLM's unmodified main or the torch engine's.

Run as ``python -m penstock.worker.engines.launch PLAN LIFELINE_FD``, or forked from the pre-imported parent. vLLM's
engine core imports this module again with ``spawn``: the import must be cheap and have no effect.
"""

import os
import sys
from pathlib import Path

from penstock.domain.models.model import Runtime
from penstock.worker import gate_config
from penstock.worker.engines import (
    answers,
    core_end,
    counting,
    dead_ends,
    grammar_words,
    lifeline,
    log_lines,
    plan,
    prefill,
    refusals,
)
from penstock.worker.engines.plan import Certificate, LaunchPlan


def guard_listener(own: Certificate) -> None:
    import uvicorn

    from penstock.domain.clock import SystemClock
    from penstock.tls.files import Files
    from penstock.tls.heads import timed
    from penstock.tls.identity import GATE, Role
    from penstock.tls.listener import guard
    from penstock.tls.mutual import Mutual

    files = Files(certificate=Path(own.certificate), key=Path(own.key), authorities=Path(own.authorities))
    mutual, load = Mutual(files, Role.WORKER, SystemClock()), uvicorn.Config.load

    def guarded(config: uvicorn.Config) -> None:
        load(config)
        config.http_protocol_class = timed(config.http_protocol_class)  # vLLM's own server has no such bound
        guard(config, mutual, GATE)

    uvicorn.Config.load = guarded  # type: ignore[assignment, method-assign]  # the only place where it can be told


def run(launch: LaunchPlan, lifeline_fd: int) -> None:
    lifeline.die_with(lifeline_fd)
    os.environ.update(launch.environment)  # noqa: TID251 - it is how vLLM is configured; nothing is read here
    gate_config.install(launch.gate)
    log_lines.install()
    from penstock.telemetry import logs

    logs.configure("engine")
    if launch.tls is not None:
        guard_listener(launch.tls)
    if launch.runtime is Runtime.TORCH:
        from penstock.worker.engines.torch.main import main as serve

        serve(launch.argv)
        return
    sys.argv = ["penstock-engine", *launch.argv]

    from vllm.entrypoints.launchers.api_server.entry import main

    core_end.install()
    grammar_words.install()
    dead_ends.install()
    counting.install()
    refusals.install()
    answers.install()
    prefill.install()
    main()


def main() -> None:
    path, fd = sys.argv[1:3]
    run(plan.read(Path(path)), int(fd))


if __name__ == "__main__":
    main()
