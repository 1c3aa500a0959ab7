"""Reasons for starts and drains, in words: each names its signal and its objective. Pure."""

from collections.abc import Sequence

from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.versions import Deployment
from penstock.domain.ids import WorkerId


def start(wanted: Deployment, counted: int, *, replaces: bool) -> Decision:
    return Decision(
        what="start",
        target=wanted.version,
        signal="workers_outdated" if replaces else "workers_counted",
        value=f"{counted} serve or will serve",
        objective=f"{_deployed(wanted)}{', one more while one is replaced' if replaces else ''}",
    )


def wait(wanted: Deployment, deaths: Sequence[float], window_s: float) -> Decision:
    return Decision(
        what="wait",
        target=wanted.version,
        signal="worker_deaths",
        value=f"{len(deaths)} within {window_s:.0f} s",
        objective=f"{_deployed(wanted)}; each next accident waits twice as long",
    )


def silent(worker: WorkerId, patience_s: float) -> Decision:
    return Decision(
        what="drain",
        target=worker,
        signal="heartbeat_age_s",
        value=f"{patience_s:.0f} or more",
        objective=f"a worker reports within {patience_s:.0f} s",
    )


def failed(worker: WorkerId, detail: str) -> Decision:
    return Decision(
        what="drain", target=worker, signal="worker_state", value=f"failed: {detail}", objective="a worker serves"
    )


def surplus(worker: WorkerId, wanted: Deployment, counted: int, *, outdated: bool) -> Decision:
    return Decision(
        what="drain",
        target=worker,
        signal="workers_outdated" if outdated else "workers_counted",
        value=f"{counted} serve or will serve",
        objective=_deployed(wanted),
    )


def _deployed(wanted: Deployment) -> str:
    return f"deployed workers of {wanted.version}: {wanted.replicas}"
