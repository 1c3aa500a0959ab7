"""Gives vLLM's HTTP server the worker's certificate and admits gateways and its agent only.

vLLM's TLS arguments know no roles, no change of authority at run time, and no minimum of TLS 1.3.
"""

from pathlib import Path

from penstock.worker.engines.plan import Certificate


def install(own: Certificate) -> None:
    """Guard the server about to start; raises ``CommandError`` for unusable files."""
    import uvicorn

    from penstock.domain.clock import SystemClock
    from penstock.tls.files import Files
    from penstock.tls.identity import GATE, Role
    from penstock.tls.listener import guard
    from penstock.tls.mutual import Mutual

    files = Files(certificate=Path(own.certificate), key=Path(own.key), authorities=Path(own.authorities))
    mutual, load = Mutual(files, Role.WORKER, SystemClock()), uvicorn.Config.load

    def guarded(config: uvicorn.Config) -> None:
        load(config)
        guard(config, mutual, GATE)

    uvicorn.Config.load = guarded  # type: ignore[assignment, method-assign]  # the only place where it can be told
