"""A gate's settings: written by the agent, read inside the engine's process."""

from dataclasses import dataclass

from penstock.domain.ids import VersionId, WorkerId

TICKET = "penstock.ticket"
"""The key of the request's ticket in the scope that the gate passes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """``ticket_key`` (hex) seals this worker's tickets. ``preempts``: the engine takes slots back from tenants above
    their share. ``time_shares``: tenants share the engine by time.
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
    """Adapter versions in one batch of the engine; 0 for none."""
    adapters_kept: int = 0
    """Adapters that the engine keeps in memory, including those in slots."""


_installed: list[GateConfig] = []


def install(config: GateConfig) -> None:
    """VLLM constructs the gate with the app as its only argument."""
    _installed[:] = [config]


def installed() -> GateConfig:
    return _installed[0]
