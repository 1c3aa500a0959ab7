"""Checks a PEFT folder's settings, and writes only the known ones into the version.

Settings that vLLM 0.32 ignores although they change answers (``vllm/lora/peft_helper.py``) are refused here. Unknown
ones are dropped, so that no later engine can give them a meaning.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models import adapter
from penstock.formats.adapter_gain import MOST_SCALE, scale_of
from penstock.packaging import adapter_targets, reading
from penstock.packaging.adapter_targets import Targets

MOST_BYTES = 1 << 20
_PLAIN_INITS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
"""Initialisations that leave the base's weights unchanged; others (PiSSA, OLoRA, LoftQ) train with changed ones."""
_UNSERVED = {
    "use_dora": "DoRA, which scales the base's weights themselves",
    "modules_to_save": "whole modules of its own (modules_to_save)",
    "lora_bias": "biases of its own (lora_bias)",
    "layer_replication": "layers that its base does not have (layer_replication)",
    "alora_invocation_tokens": "an adapter that begins in the middle of a prompt (aLoRA)",
    "use_bdlora": "block-diagonal matrices (BD-LoRA)",
    "use_qalora": "QALoRA",
    "trainable_token_indices": "tokens of its own (trainable_token_indices)",
    "target_parameters": "parameters that are no modules (target_parameters)",
    "rank_pattern": "several ranks (rank_pattern)",
    "alpha_pattern": "several scales (alpha_pattern)",
    "fan_in_fan_out": "transposed weights (fan_in_fan_out)",
}
"""Settings of PEFT that must be absent, empty or false, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    rank: int
    alpha: float
    is_rank_stabilised: bool
    targets: Targets = field(default_factory=Targets)

    @property
    def scale(self) -> float:
        return scale_of(self.rank, self.alpha, is_rank_stabilised=self.is_rank_stabilised)


def read(folder: Path) -> AdapterConfig:
    """Raises ``ArtifactRefused`` for settings that an engine cannot honour."""
    path = folder / adapter.CONFIG
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise ArtifactRefused(f"{adapter.CONFIG} has more than {MOST_BYTES:,} bytes")
    found = reading.read_json(folder, adapter.CONFIG)
    if not found:
        raise ArtifactRefused(
            f"{folder} has no {adapter.CONFIG}: name a folder that PEFT's save_pretrained has written"
        )
    if (kind := str(found.get("peft_type", "LORA"))[:40]) != "LORA":
        raise ArtifactRefused(f"it is a {kind} adapter; LoRA adapters are served")
    for name, words in _UNSERVED.items():
        if found.get(name):
            raise ArtifactRefused(f"it has {words}: train it without")
    if found.get("bias", "none") != "none":
        raise ArtifactRefused('it has biases of its own (bias): train it with bias="none"')
    _check_start(found.get("init_lora_weights"))
    config = AdapterConfig(
        rank=_rank(found),
        alpha=_alpha(found),
        is_rank_stabilised=_is_rank_stabilised(found),
        targets=adapter_targets.read(found),
    )
    if config.scale > MOST_SCALE:
        raise ArtifactRefused(f"{adapter.CONFIG} gives a scale of {config.scale:.4g}, above {MOST_SCALE:,.0f}")
    return config


def write(folder: Path, config: AdapterConfig, modules: Iterable[str]) -> None:
    """Write an adapter's settings for these modules (last name parts) into a folder."""
    alpha = int(config.alpha) if config.alpha == int(config.alpha) else config.alpha
    found = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": config.rank,
        "lora_alpha": alpha,
        "use_rslora": config.is_rank_stabilised,
        "bias": "none",
        "target_modules": sorted(set(modules)),
    }
    (folder / adapter.CONFIG).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _check_start(start: object) -> None:
    if isinstance(start, str) and start.lower() not in _PLAIN_INITS:
        raise ArtifactRefused(
            f"it was initialised with {start[:40]}, which changes the base's weights: convert it to plain LoRA"
        )
    if not isinstance(start, str | bool | None):
        raise ArtifactRefused(f"{adapter.CONFIG} has a value of init_lora_weights that PEFT does not know")


def _is_rank_stabilised(found: dict[str, object]) -> bool:
    said = found.get("use_rslora")
    if not isinstance(said, bool | None):
        raise ArtifactRefused(f"use_rslora in {adapter.CONFIG} is {str(said)[:40]!r}: write true or false")
    return bool(said)


def _rank(found: dict[str, object]) -> int:
    rank = found.get("r")
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ArtifactRefused(f"{adapter.CONFIG} gives no rank (r)")
    if rank > adapter.RANKS[-1]:
        raise ArtifactRefused(f"its rank is {str(rank)[:12]}, and engines have slots for ranks to {adapter.RANKS[-1]}")
    return rank


def _alpha(found: dict[str, object]) -> float:
    alpha = found.get("lora_alpha")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha <= MOST_SCALE:
        raise ArtifactRefused(f"{adapter.CONFIG} gives no scale (lora_alpha) above 0 and up to {MOST_SCALE:,.0f}")
    return float(alpha)
