"""Bounds of a plan's inputs: one row for each number, with its option and the remedy. Pure."""

from typing import NamedTuple

from penstock.domain.errors import ArtifactRefused

MOST_TOKENS = 1 << 24
GPUS_OF_A_NODE = 8
ON_ONE_NODE = "a worker stays on one node: take a larger GPU, or more replicas"


class Bound(NamedTuple):
    option: str
    least: float
    most: float
    unit: str
    remedy: str
    scale: float = 1.0
    """Of the option's unit to the field's."""
    multiple: int = 0
    off: float | None = None
    """A field that is not used."""

    def check(self, value: float) -> None:
        told = value * self.scale
        if not self.least <= told <= self.most or (self.multiple and told % self.multiple):
            raise ArtifactRefused(f"{self.option}: {told:,.9g} is not within {self.told}: {self.remedy}")

    @property
    def told(self) -> str:
        multiples = f"multiples of {self.multiple}, " if self.multiple else ""
        return f"{multiples}{self.least:,.9g} to {self.most:,.9g} {self.unit}"


BOUNDS = {
    "context_tokens": Bound("--context", 1, MOST_TOKENS, "tokens", "give the longest prompt with its output"),
    "prompt": Bound("--prompt", 1, MOST_TOKENS, "tokens", "give a typical prompt, such as 1155"),
    "output": Bound("--output", 1, MOST_TOKENS, "tokens", "give a typical output, such as 211"),
    "itl_s": Bound("--itl-ms", 1, 10_000, "ms", "give the objective of one token, such as 50", 1e3),
    "ttft_s": Bound("--ttft-ms", 1, 600_000, "ms", "give the objective, such as 1000", 1e3),
    "tensor_parallel": Bound("--tp", 1, GPUS_OF_A_NODE, "GPUs", ON_ONE_NODE),
    "pipeline_parallel": Bound("--pp", 1, GPUS_OF_A_NODE, "GPUs", ON_ONE_NODE),
    "block_tokens": Bound("--block", 16, 1024, "tokens", "vLLM's GPU kernels take no others", multiple=16),
    "adapter_slots": Bound("--adapters", 1, 1024, "slots", "give SLOTSxRANK, such as 8x16", off=0),
    "adapter_rank": Bound("--adapters", 1, 512, "as rank", "give SLOTSxRANK, such as 8x16", off=0),
    "host_bytes": Bound("--host-gib", 0, 1 << 14, "GiB", "give the host's free memory", 2.0**-30),
    "hits": Bound("--hits", 0, 1, "of prompt tokens", "give a part, such as 0.3"),
    "evicted": Bound("--evicted", 0, 1, "of prompt tokens", "give a part, such as 0.1"),
    "requests_per_s": Bound(
        "--peak", 1e-4, 1e6, "requests/s", "give the rate of the busiest minute, or --from-ledger with --version"
    ),
    "other_region_per_s": Bound("--other-region", 0, 1e6, "requests/s", "give the other region's peak, 0 for none"),
    "target_load": Bound("--load", 0.01, 1, "of a replica's rate", "give a target load, such as 0.8"),
    "zones": Bound("--zones", 1, 16, "zones", "give the zones of the region, such as 3"),
    "gpu_per_hour": Bound("--price", 1e-4, 1000, "dollars an hour", "give one GPU's price, or leave it out if unknown"),
    "days": Bound("--from-ledger", 1, 400, "days", "give days that the ledger keeps"),
}


def check(*plans: object) -> None:
    """Raise ``ArtifactRefused`` for the first field that is out of its bound."""
    for found in plans:
        for name, bound in BOUNDS.items():
            if (value := getattr(found, name, bound.off)) is not None and value != bound.off:
                bound.check(value)
