"""A gate's settings: written by the agent, read inside the engine's process."""

from dataclasses import dataclass

from penstock.domain.ids import VersionId, WorkerId

TICKET = "penstock.ticket"
"""Where the engine's side finds a request's ticket, in the scope that the gate passes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """``ticket_key`` (hex) is the key of the tickets that gateways seal for this worker.

    ``preempts``: the engine takes slots back from tenants above their share. ``time_shares``: tenants take turns
    inside it.
    """

    worker: WorkerId
    version: VersionId
    ticket_key: str
    max_num_seqs: int
    max_num_batched_tokens: int = 512
    long_prefill_tokens: int = 0
    block_size: int = 16
    preempts: bool = False
    time_shares: bool = False
    adapter_slots: int = 0
    """Adapters of how many versions the engine takes into one batch; 0 where it takes none."""
    adapters_kept: int = 0
    """So many it keeps in memory, those in slots among them."""


_installed: list[GateConfig] = []


def install(config: GateConfig) -> None:
    """Set what the next gate of this process works with: vLLM makes it, and passes the app alone."""
    _installed[:] = [config]


def installed() -> GateConfig:
    return _installed[0]
