"""GPUs for plans: memory, bandwidth, arithmetic, and MIG slices.

Figures are the makers' data sheets and ``nvidia-smi``'s memory, as of 2026-11-27. The reached parts of them are fitted
to published runs: Vidur's kernel profiles for H100 and A100, runs of BLIS and databasemart for L40S, L4 and A10G.
"""

from dataclasses import dataclass

from penstock.domain.errors import ArtifactRefused

GIB = 1 << 30
MIB = 1 << 20
PCIE_3, PCIE_4, PCIE_5 = 12.6e9, 25e9, 50e9
"""Bytes a second of 16 lanes one way: 0.8 of the specification, as large copies reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    profile: str
    memory_bytes: int
    sevenths: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    name: str
    memory_bytes: int
    """Memory of the whole GPU as the driver reports it."""
    bandwidth_per_s: float
    """Bytes a second."""
    flops: float
    """Dense bfloat16 operations a second."""
    reached: float
    """The part of ``flops`` that large matrix products reach."""
    link_per_s: float = PCIE_4
    """Bytes a second between host and GPU."""
    slices: tuple[Slice, ...] = ()


def _slices(*profiles: tuple[str, int, float]) -> tuple[Slice, ...]:
    return tuple(Slice(profile=name, memory_bytes=int(gib * GIB), sevenths=part) for name, part, gib in profiles)


_OF_40 = _slices(("1g.5gb", 1, 4.75), ("2g.10gb", 2, 9.75), ("3g.20gb", 3, 19.6), ("4g.20gb", 4, 19.6))
_OF_80 = _slices(("1g.10gb", 1, 9.5), ("1g.20gb", 1, 19.5), ("2g.20gb", 2, 19.5), ("3g.40gb", 3, 39.25))

GPUS = {
    one.name: one
    for one in (
        Gpu(name="T4", memory_bytes=15_360 * MIB, bandwidth_per_s=0.32e12, flops=65e12, reached=0.4, link_per_s=PCIE_3),
        Gpu(name="L4", memory_bytes=23_034 * MIB, bandwidth_per_s=0.30e12, flops=121e12, reached=0.45),
        Gpu(name="A10G", memory_bytes=23_028 * MIB, bandwidth_per_s=0.60e12, flops=70e12, reached=0.55),
        Gpu(name="L40S", memory_bytes=46_068 * MIB, bandwidth_per_s=0.864e12, flops=362e12, reached=0.40),
        Gpu(
            name="A100-40",
            memory_bytes=40_960 * MIB,
            bandwidth_per_s=1.555e12,
            flops=312e12,
            reached=0.58,
            slices=_OF_40,
        ),
        Gpu(
            name="A100-80",
            memory_bytes=81_920 * MIB,
            bandwidth_per_s=2.039e12,
            flops=312e12,
            reached=0.58,
            slices=_OF_80,
        ),
        Gpu(
            name="H100",
            memory_bytes=81_559 * MIB,
            bandwidth_per_s=3.35e12,
            flops=989e12,
            reached=0.58,
            link_per_s=PCIE_5,
            slices=_OF_80,
        ),
        Gpu(
            name="H200",
            memory_bytes=143_771 * MIB,
            bandwidth_per_s=4.8e12,
            flops=989e12,
            reached=0.58,
            link_per_s=PCIE_5,
        ),
    )
}


def gpu(name: str) -> Gpu:
    """``H100/3g.40gb`` is a slice; raises ``ArtifactRefused`` with known names."""
    whole, _, profile = name.partition("/")
    if (found := GPUS.get(whole)) is None:
        raise ArtifactRefused(f"--gpu: {whole[:40]!r} is unknown, name one that is known: {', '.join(GPUS)}")
    if not profile:
        return found
    for one in found.slices:
        if one.profile == profile:
            part = one.sevenths / 7
            return Gpu(
                name=name,
                memory_bytes=one.memory_bytes,
                bandwidth_per_s=found.bandwidth_per_s * one.memory_bytes / found.memory_bytes,
                flops=found.flops * part,
                reached=found.reached,
                link_per_s=found.link_per_s * part,
            )
    known = ", ".join(one.profile for one in found.slices) or "none"
    raise ArtifactRefused(f"--gpu: {whole} has no MIG profile {profile[:40]!r}; it has: {known}")
