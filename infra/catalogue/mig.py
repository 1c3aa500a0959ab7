"""How each GPU may be cut: profiles, how many fit alone, and the slices each takes.

A GPU has seven compute slices and eight memory slices; a layout fits when neither is overspent.
Source: NVIDIA MIG user guide tables, as quoted for EKS node groups (read 2026-11-20).
"""

from dataclasses import dataclass

COMPUTE_SLICES = 7
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile: how many fit on an otherwise empty GPU, the slices it takes, the memory it gives."""

    most: int
    compute: int
    memory: int
    memory_gib: int


def _table(one: int, *, double_one: bool) -> dict[str, Profile]:
    two, three, seven = _sizes(one)
    table = {
        f"1g.{one}gb": Profile(most=7, compute=1, memory=1, memory_gib=one),
        f"2g.{two}gb": Profile(most=3, compute=2, memory=2, memory_gib=two),
        f"3g.{three}gb": Profile(most=2, compute=3, memory=4, memory_gib=three),
        f"7g.{seven}gb": Profile(most=1, compute=7, memory=8, memory_gib=seven),
    }
    if double_one:
        table[f"1g.{two}gb"] = Profile(most=4, compute=1, memory=2, memory_gib=two)
    return table


def _sizes(one: int) -> tuple[int, int, int]:
    return {5: (10, 20, 40), 10: (20, 40, 80), 18: (35, 71, 141)}[one]


PROFILES: dict[str, dict[str, Profile]] = {
    "A100-40": _table(5, double_one=False),
    "A100-80": _table(10, double_one=True),
    "H100-80": _table(10, double_one=True),
    "H200-141": _table(18, double_one=True),
}


def misfit(gpu: str, layout: dict[str, int]) -> str:
    """Why the layout can't be cut from that GPU; an empty string if it can."""
    profiles = PROFILES.get(gpu)
    if profiles is None:
        return f"{gpu} can't be partitioned with a known table"
    for name, count in layout.items():
        if name not in profiles:
            return f"{gpu} has no profile {name}; it has {', '.join(sorted(profiles))}"
        if not 1 <= count <= profiles[name].most:
            return f"{gpu} holds 1 to {profiles[name].most} of {name}, not {count}"
    compute = sum(profiles[name].compute * count for name, count in layout.items())
    memory = sum(profiles[name].memory * count for name, count in layout.items())
    if compute > COMPUTE_SLICES or memory > MEMORY_SLICES:
        return f"{gpu} has 7 compute and 8 memory slices, the layout takes {compute} and {memory}"
    return ""
