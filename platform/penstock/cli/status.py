"""`penstock status`, `config` and `version`: what runs, with which settings, of which kind."""

import os
from pathlib import Path
from typing import Any

from penstock.apps.connections import controller_address, operator
from penstock.apps.settings import Settings, load, without_password
from penstock.apps.sharing import doubts_on_answers
from penstock.cli import adapters, pool_screen, tables
from penstock.cli.terminal import explained, out
from penstock.domain.clock import SystemClock

_UTIME = 11
"""Where the user CPU time stands in ``/proc/<pid>/stat``, counted after the name; the system's follows it."""
_SPEAKING = {"ready", "draining"}
"""States in which an engine runs whose figures are of now."""


def status() -> None:
    """Show what runs: processes, workers with their phases and load, versions, aliases, the routing table.

    For example: `penstock status`, or `watch -n1 penstock status` while workers start.
    """
    with explained():
        settings = load()
        api = operator(settings)
        _processes(settings)
        _workers(api.get("/workers")["workers"], settings.lease_s)
        models = api.get("/models")["models"]
        _models(models)
        found = api.get("/status")
        out.print(
            f"controller {'leads' if found['leader'] else 'stands by'} at {controller_address(settings)}\n"
            f"routing table {found['table']} of {tables.when(found['table_made_at'])},"
            f" {found['failed_ticks']} failed ticks\n"
            f"{_limits(settings, is_shared=found['limits_shared'])}"
            f"{_certificates(found.get('certificate_ends_at'), _own_end(settings), SystemClock().now())}"
            f"{pool_screen.pool(found.get('pool'))}{pool_screen.pins(found.get('pool'), models)}{_observers(settings)}"
            + "".join(f"\nheld: {one}" for one in found.get("held", ())),
            highlight=False,
            soft_wrap=True,
        )


def config() -> None:
    """Print all settings as YAML; the output may stand as `settings.yaml` in the home."""
    from penstock.apps.settings import as_yaml

    with explained():
        out.print(as_yaml(load()), end="", markup=False, highlight=False, soft_wrap=True)


def version() -> None:
    """Print the version of this program."""
    from penstock import __version__

    out.print(f"penstock {__version__}", highlight=False)


def _limits(settings: Settings, *, is_shared: bool) -> str:
    """Say where limits and budgets are counted, as the controller knows it, and whether they hold."""
    if is_shared:
        shared = f"limits and budgets: shared by all gateways in {_store(settings)}"
        doubt = doubts_on_answers(settings)
        return f"{shared}\nanswers under idempotency keys: {doubt}" if doubt else shared
    if settings.url:
        return "limits and budgets: counted by each gateway for itself; the controller knows no store of limits"
    if settings.gateways > 1:
        return f"limits and budgets: NOT HELD; {settings.gateways} gateways share none (PENSTOCK_LIMITS_URL)"
    return "limits and budgets: counted by the one gateway"


def _store(settings: Settings) -> str:
    """Name the store where these are the settings of the platform that is asked."""
    is_known = settings.limits_url and not settings.url
    return without_password(settings.limits_url) if is_known else "the limits store"


def _own_end(settings: Settings) -> float | None:
    from penstock.apps import peers

    own = peers.operator_certificate(settings, controller_address(settings))
    return own.now().ends_at if own else None


def _certificates(controller: float | None, own: float | None, now: float) -> str:
    """Say until when the certificates are valid that this command can see: who renews them may have stopped."""
    ends = {"the controller's": controller, "yours": own}
    told = [f"{whose} {_until(at, now)}" for whose, at in ends.items() if at is not None]
    return f"\ncertificates: {', '.join(told)}" if told else ""


def _until(at: float, now: float) -> str:
    left_h = (at - now) / 3600
    return f"until {tables.when(at)} (HAS ENDED)" if left_h <= 0 else f"until {tables.when(at)} ({left_h:.1f} h)"


def _observers(settings: Settings) -> str:
    """Say where metrics and alerts are to be seen; nothing where nobody gathers them."""
    from penstock.local import observing

    return "".join(f"\n{what} at {url}" for what, url in observing.addresses(settings.paths).items())


def _processes(settings: Settings) -> None:
    from penstock.local import state
    from penstock.supervision import exposition

    found = state.read(settings.paths.run)
    named = {"supervisor": found.pid, **found.processes} if found else {}
    run = settings.paths.run
    rows = [(name, pid, *_usage(pid), exposition.address(run, pid)) for name, pid in named.items() if pid]
    tables.show(f"Processes of {settings.paths.root}", ("process", "pid", "MB", "CPU s", "metrics"), rows)


def _usage(pid: int) -> tuple[str, str]:
    """Return a process's memory and the CPU time it has used, from the kernel's account (proc(5))."""
    try:
        resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone", ""
    ticks = int(fields[_UTIME]) + int(fields[_UTIME + 1])
    return f"{resident_pages * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f}", f"{ticks / os.sysconf('SC_CLK_TCK'):.1f}"


def _workers(workers: list[dict[str, Any]], lease_s: float) -> None:
    """Show each worker in one row, those that are gone apart; what it has to say stands in a line of its own below."""
    gone = [worker for worker in workers if worker["age_s"] > lease_s or worker["state"] == "stopped"]
    _present([worker for worker in workers if worker not in gone], lease_s)
    if gone:
        rows = [(worker["id"], _state(worker, lease_s), f"{worker['age_s']:.0f} s ago") for worker in gone]
        tables.show("Workers gone of late", ("worker", "state", "seen"), rows, [worker["detail"] for worker in gone])


def _present(workers: list[dict[str, Any]], lease_s: float) -> None:
    rows = [
        (
            worker["id"],
            _state(worker, lease_s),
            *_load(worker, lease_s),
            worker["restarts"],
            f"{worker['age_s']:.0f} s",
        )
        for worker in workers
    ]
    columns = ("worker", "state", "runs+waits", "KV", "restarts", "seen")
    tables.show("Workers", columns, rows, [_notes(worker) for worker in workers])


def _load(worker: dict[str, Any], lease_s: float) -> tuple[str, str]:
    """Return what runs and waits there, and how full its KV cache is; of an engine that doesn't speak, nothing."""
    if worker["age_s"] > lease_s or worker["state"] not in _SPEAKING:
        return "-", "-"
    load = worker["load"]
    return f"{load['running']}+{load['waiting']}", f"{load['kv_used_ratio']:.0%}"


def _notes(worker: dict[str, Any]) -> str:
    """Return what a worker says of itself, and its phases with their seconds."""
    phases = ", ".join(f"{timing['phase']} {timing['seconds']:.1f}" for timing in worker["phases"])
    return " · ".join(filter(None, (worker["detail"], phases and f"phases in s: {phases}")))


def _state(worker: dict[str, Any], lease_s: float) -> str:
    """Say a worker's state; without heartbeats it may be anything by now."""
    if worker["age_s"] > lease_s and worker["state"] not in {"stopped", "failed"}:
        return f"silent, was {worker['state']}"
    return f"{worker['state']}, to drain" if worker["draining"] else str(worker["state"])


def _models(models: list[dict[str, Any]]) -> None:
    rows = [(one["id"], one["task"], adapters.workers_of(one), ", ".join(one["aliases"])) for one in models]
    tables.show("Versions", ("version", "task", "workers", "aliases"), rows, [adapters.note(one) for one in models])
