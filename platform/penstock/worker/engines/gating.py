"""The gate's settings by engine kind. Pure.

vLLM prefills in steps of a fixed number of tokens, and its scheduler preempts for other tenants. A torch engine has no
such step: its batches are bounded in seconds and tenants take turns in them (ADR 0078), so requests need not wait in
the queue for what others have in the batcher.
"""

from dataclasses import replace

from penstock.domain.models.model import Manifest, Runtime
from penstock.worker.engines.vllm import kept_adapters, long_prefill, shares_steps
from penstock.worker.gate_config import GateConfig

NO_STEPS = 1 << 30
"""Prompt tokens of a step, where there is none."""


def for_engine(gate: GateConfig, manifest: Manifest) -> GateConfig:
    engine = manifest.engine
    sized = replace(gate, max_num_seqs=engine.max_num_seqs, block_size=engine.block_size)
    if manifest.runtime is Runtime.TORCH:
        return replace(sized, max_num_batched_tokens=NO_STEPS, takes_turns=True)
    return replace(
        sized,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        long_prefill_tokens=long_prefill(manifest),
        displaces=shares_steps(manifest),
        adapter_slots=engine.adapter_slots,
        adapters_kept=kept_adapters(engine.adapter_slots),
    )
