"""Money in whole micro-dollars, so that sums are exact."""

from dataclasses import dataclass
from typing import NewType

MicroUsd = NewType("MicroUsd", int)

FREE = MicroUsd(0)

TOKENS_PER_UNIT = 1_000_000
MICRO_PER_USD = 1_000_000
THOUSAND = 1000


def dollars(micro: int) -> str:
    """Exact, with two digits at least: ``$1,250.00``, ``$0.000042``, ``-$0.01``."""
    whole, _, cents = f"{abs(micro) / MICRO_PER_USD:,.6f}".partition(".")
    return f"{'-' if micro < 0 else ''}${whole}.{cents.rstrip('0'):0<2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Micro-dollars a million tokens. A version without a price cannot be registered (B5)."""

    prompt_per_mtok: MicroUsd
    cached_per_mtok: MicroUsd
    output_per_mtok: MicroUsd

    @property
    def dearest(self) -> int:
        return max(self.prompt_per_mtok, self.cached_per_mtok, self.output_per_mtok)

    def at(self, factor: float) -> "Price":
        """Return the price at a ratio, to a thousandth, rounded up to whole micro-dollars."""
        if factor == 1.0:
            return self
        thousandths = round(factor * THOUSAND)
        return Price(
            prompt_per_mtok=_part(self.prompt_per_mtok, thousandths),
            cached_per_mtok=_part(self.cached_per_mtok, thousandths),
            output_per_mtok=_part(self.output_per_mtok, thousandths),
        )

    def output_for(self, amount: int, most: int) -> int:
        """Output tokens, at most ``most``, for this amount (micro-dollars)."""
        if not self.output_per_mtok:
            return most
        return min(most, max(0, amount) * TOKENS_PER_UNIT // self.output_per_mtok)

    def uncached(self, *, prompt: int, output: int) -> int:
        """Undivided and without discount for cached tokens: the basis for comparing versions."""
        return prompt * self.prompt_per_mtok + output * self.output_per_mtok

    def of(self, *, prompt: int, cached: int, output: int) -> MicroUsd:
        """Return the price of these tokens, rounded up to a micro-dollar; ``cached`` ones are part of ``prompt``."""
        total = (prompt - cached) * self.prompt_per_mtok + cached * self.cached_per_mtok + output * self.output_per_mtok
        return MicroUsd(-(-total // TOKENS_PER_UNIT))


def _part(micro: int, thousandths: int) -> MicroUsd:
    return MicroUsd(-(-micro * thousandths // THOUSAND))
